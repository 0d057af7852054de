#include "formats/onnx/rewrite.h"

#include <algorithm>
#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "wconv/file.h"

namespace wconv::onnx {
namespace {

std::string varint(std::uint64_t value) {
  std::string text;
  protozero::add_varint_to_buffer(&text, value);
  return text;
}

class Pieces {
 public:
  explicit Pieces(OutputFile& file) : file_(file) {}

  void add_text(std::string_view text) {
    if (text.empty()) return;
    const auto bytes = std::as_bytes(std::span(text));
    auto* last = file_.pieces.empty() ? nullptr : std::get_if<LiteralPiece>(&file_.pieces.back().content);
    if (!last) last = &std::get<LiteralPiece>(file_.pieces.emplace_back(Piece{file_.size, LiteralPiece{}}).content);
    last->bytes.insert(last->bytes.end(), bytes.begin(), bytes.end());
    file_.size += text.size();
  }
  void add_range(const std::shared_ptr<const File>& source, std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    file_.pieces.push_back({file_.size, FilePiece{{source, begin, end - begin}}});
    file_.size += end - begin;
  }
  void add_tensor(const TensorPiece& tensor) {
    if (tensor.size == 0) return;
    file_.pieces.push_back({file_.size, tensor});
    file_.size += tensor.size;
  }

 private:
  OutputFile& file_;
};

}  // namespace

std::ptrdiff_t Rewrite::add_message(std::ptrdiff_t parent, const Field& field) {
  messages_.push_back({parent, field.length_at, field.begin, field.end});
  return static_cast<std::ptrdiff_t>(messages_.size()) - 1;
}

// From the inside out: a message that grows may need a longer length, by which its parent grows too.
void Rewrite::correct_lengths() {
  std::vector<std::int64_t> growth(messages_.size(), 0);
  std::vector<bool> changed(messages_.size(), false);
  for (const Edit& edit : edits_) {
    const auto added = static_cast<std::int64_t>(edit.text.size() + (edit.has_tensor ? edit.tensor.size : 0));
    growth[static_cast<std::size_t>(edit.message)] += added - static_cast<std::int64_t>(edit.end - edit.begin);
    const bool kept = edit.has_tensor && edit.text.empty() && edit.end - edit.begin == edit.tensor.size;
    if (!kept) changed[static_cast<std::size_t>(edit.message)] = true;
  }
  for (std::size_t i = messages_.size(); i-- > 0;) {
    const MessagePlace& place = messages_[i];
    if (!changed[i] || place.parent < 0) continue;
    const auto parent = static_cast<std::size_t>(place.parent);
    const std::uint64_t size = place.end - place.begin + static_cast<std::uint64_t>(growth[i]);
    const std::string length = varint(size);
    growth[parent] +=
        growth[i] + static_cast<std::int64_t>(length.size()) - static_cast<std::int64_t>(place.begin - place.length_at);
    changed[parent] = true;
    edits_.push_back({place.parent, place.length_at, place.begin, length, false, {}});
  }
}

OutputFile Rewrite::plan(std::string name) {
  correct_lengths();
  std::stable_sort(edits_.begin(), edits_.end(),
                   [](const Edit& a, const Edit& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  OutputFile file;
  file.name = std::move(name);
  Pieces pieces(file);
  std::uint64_t position = 0;
  for (const Edit& edit : edits_) {
    pieces.add_range(graph_.file, position, edit.begin);
    pieces.add_text(edit.text);
    if (edit.has_tensor) pieces.add_tensor(edit.tensor);
    position = edit.end;
  }
  pieces.add_range(graph_.file, position, graph_.file->size());
  edits_.clear();
  return file;
}

}  // namespace wconv::onnx
