#include <algorithm>
#include <cstring>

#include "formats/safetensors/header_parser.h"
#include "formats/safetensors/safetensors.h"
#include "wconv/error.h"

namespace wconv {
namespace {

using safetensors::Entry;
using safetensors::Header;

// Shapes, dtypes and ranges agree, and the ranges tile the data from its first byte to the end of the file.
// Sorts the entries by position.
void check_ranges(Header& header, std::uint64_t file_bytes) {
  auto& entries = header.entries;
  const auto before = [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::stable_sort(entries.begin(), entries.end(), before);
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    const auto refuse = [&](std::string message) {
      throw Error(ErrorCode::kCorrupt, std::move(message)).in_tensor(entry.info.name).at(header.data_begin + expected);
    };
    if (entry.end < entry.begin)
      refuse(fmt::format("data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
    if (entry.begin < expected) {
      refuse(fmt::format("data_offsets [{}, {}] overlap the tensor before, which ends at {}", entry.begin, entry.end,
                         expected));
    }
    if (entry.begin > expected) {
      refuse(fmt::format("data_offsets [{}, {}] leave a hole: the data before ends at {}", entry.begin, entry.end,
                         expected));
    }
    std::uint64_t bytes = 0;
    try {
      bytes = storage_bytes(entry.info.dtype, entry.info.shape);
    } catch (Error& error) {
      throw error.in_tensor(entry.info.name).at(entry.position);
    }
    if (bytes != entry.end - entry.begin) {
      refuse(fmt::format("shape and dtype {} need {} bytes, but data_offsets [{}, {}] span {}", name(entry.info.dtype),
                         bytes, entry.begin, entry.end, entry.end - entry.begin));
    }
    expected = entry.end;
  }
  const std::uint64_t data = file_bytes - header.data_begin;
  if (expected == data) return;
  fail_at(header.data_begin + std::min(expected, data), ErrorCode::kCorrupt,
          "the tensors need {} bytes of data, the file has {}: {}", expected, data,
          expected > data ? "truncated download?" : "trailing bytes belong to no tensor");
}

class Reader final : public FormatReader {
 public:
  std::string_view name() const override { return "safetensors"; }

  bool probe(std::span<const std::byte> head) const override {
    if (head.size() < 9) return false;
    std::uint64_t size = 0;
    for (std::size_t i = 8; i-- > 0;) size = size << 8 | std::to_integer<std::uint64_t>(head[i]);
    return head[8] == std::byte{'{'} && size <= 16 * safetensors::kMaxHeaderBytes;
  }

  Model open(std::shared_ptr<const File> file, const ReadOptions& options) const override {
    if (!options.key.empty())
      fail(ErrorCode::kUsage, "--key picks a part of a PyTorch checkpoint; this is safetensors");
    Header header = safetensors::parse_header(file);
    check_ranges(header, file->size());
    Model model;
    model.format = name();
    model.path = file->path();
    model.files.push_back({file->path(), file->size(), file});
    try {
      model.metadata = metadata_from_text(header.metadata);
    } catch (Error& error) {
      throw error.at(*header.metadata_at);
    }
    if (header.metadata_at && header.metadata.empty()) model.metadata.set_stated();
    model.tensors.reserve(header.entries.size());
    for (; !header.entries.empty(); header.entries.pop_front()) {
      Entry& entry = header.entries.front();
      Tensor tensor;
      tensor.data = file_tensor(file, header.data_begin + entry.begin, entry.end - entry.begin);
      tensor.info = std::move(entry.info);
      tensor.source_file = file;
      tensor.source_offset = header.data_begin + entry.begin;
      tensor.source_dtype = tensor.info.dtype;
      model.tensors.push_back(std::move(tensor));
    }
    return model;
  }
};

}  // namespace

const FormatReader& safetensors_reader() {
  static const Reader reader;
  return reader;
}

}  // namespace wconv
