#include <algorithm>
#include <array>

#include "formats/gguf/gguf.h"
#include "formats/gguf/layout.h"
#include "formats/gguf/metadata_writer.h"
#include "formats/gguf/writer_checks.h"
#include "wconv/error.h"

namespace wconv {
namespace gguf {
namespace {

std::uint64_t padded(std::uint64_t size, std::uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// Tensors [begin, end) of the model.
struct Part {
  std::size_t begin = 0, end = 0;
};

// A part is closed when the next tensor would take it past `shard_size` bytes of tensor data; each has one at least.
std::vector<Part> cut(const Model& model, std::uint64_t shard_size) {
  std::vector<Part> parts = {{0, 0}};
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const std::uint64_t size = model.tensors[i].data->size_bytes();
    const bool full = shard_size != 0 && (used > shard_size || size > shard_size - used);
    if (full && parts.back().end > parts.back().begin) {
      parts.push_back({i, i});
      used = 0;
    }
    parts.back().end = i + 1;
    used += size;
  }
  return parts;
}

MetaValue split_number(MetaType type, std::uint64_t number) {
  MetaValue value;
  value.type = type;
  if (type == MetaType::kI32) {
    value.value = static_cast<std::int64_t>(number);
  } else {
    value.value = number;
  }
  return value;
}

// The first part has everything; later ones only the split keys, and so the default alignment.
Metadata part_metadata(const Model& model, std::size_t index, std::size_t count) {
  Metadata metadata;
  if (index == 0)
    for (const auto& [key, value] : model.metadata)
      if (!is_split_key(key)) metadata.append(key, value);
  if (count > 1) {
    metadata.append(std::string(kSplitNoKey), split_number(MetaType::kU16, index));
    metadata.append(std::string(kSplitCountKey), split_number(MetaType::kU16, count));
    metadata.append(std::string(kSplitTensorsKey), split_number(MetaType::kI32, model.tensors.size()));
  }
  return metadata;
}

OutputFile plan_file(const Model& model, const Part& part, const Metadata& metadata, std::string name) {
  const std::uint64_t alignment = stated_alignment(metadata);
  HeaderBytes header(part.end - part.begin, metadata.size());
  for (const auto& [key, value] : metadata) header.key_value(key, value);
  std::uint64_t offset = 0;
  for (std::size_t i = part.begin; i < part.end; ++i) {
    header.tensor(model.tensors[i].info, offset);
    offset += padded(model.tensors[i].data->size_bytes(), alignment);
  }
  OutputFile file;
  file.name = std::move(name);
  LiteralPiece literal{header.take()};
  file.size = offset == 0 ? literal.bytes.size() : padded(literal.bytes.size(), alignment);
  file.pieces.emplace_back().content = std::move(literal);
  for (std::size_t i = part.begin; i < part.end; ++i) {
    const std::uint64_t size = model.tensors[i].data->size_bytes();
    if (size == 0) continue;
    Piece& piece = file.pieces.emplace_back();
    piece.offset = file.size;
    piece.content = TensorPiece{.tensor = i, .size = size};
    file.size += padded(size, alignment);
  }
  return file;
}

class Writer final : public FormatWriter {
 public:
  std::string_view name() const override { return "gguf"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::array<std::string_view, 1> kExtensions = {".gguf"};
    return kExtensions;
  }
  std::vector<std::string> check(const Model& model, const WriteOptions& options) const override {
    std::vector<std::string> problems = check_model(model);
    const std::size_t parts = cut(model, options.shard_size).size();
    if (parts > kMaxParts)
      problems.push_back(
          fmt::format("{} parts; a split GGUF has at most {}: choose a larger --shard-size", parts, kMaxParts));
    return problems;
  }
  Layout plan(const Model& model, const WriteOptions& options) const override {
    check_total_bytes(model);
    const std::string name = options.folder || options.file_name.empty() ? "model.gguf" : options.file_name;
    const std::vector<Part> parts = cut(model, options.shard_size);
    const std::string_view stem = std::string_view(name).substr(0, name.size() - (name.ends_with(".gguf") ? 5 : 0));
    Layout layout;
    for (std::size_t i = 0; i < parts.size(); ++i)
      layout.files.push_back(plan_file(model, parts[i], part_metadata(model, i, parts.size()),
                                       parts.size() == 1 ? name : part_name(stem, i, parts.size())));
    // The first part makes the others reachable, so it comes last.
    std::rotate(layout.files.begin(), layout.files.begin() + 1, layout.files.end());
    return layout;
  }
};

}  // namespace
}  // namespace gguf

const FormatWriter& gguf_writer() {
  static const gguf::Writer writer;
  return writer;
}

}  // namespace wconv
