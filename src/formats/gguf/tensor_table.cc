// Reading and proving the tensor table.
//
//   name: string | n_dims: u32 | dims: n_dims counts, innermost first | type: u32 | offset: u64, from the data's start
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>

#include "formats/gguf/header.h"
#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

struct RemovedType {
  std::uint32_t id;
  std::string_view name, advice;
};

// ggml.h keeps these numbers as comments: the types were removed, the numbers are not used again.
constexpr auto kRemovedTypes = std::to_array<RemovedType>({
    {4, "Q4_2", "make the file again from the original model"},
    {5, "Q4_3", "make the file again from the original model"},
    {31, "Q4_0_4_4", "repack from Q4_0, which llama.cpp rearranges when it loads"},
    {32, "Q4_0_4_8", "repack from Q4_0, which llama.cpp rearranges when it loads"},
    {33, "Q4_0_8_8", "repack from Q4_0, which llama.cpp rearranges when it loads"},
    {36, "IQ4_NL_4_4", "repack from IQ4_NL, which llama.cpp rearranges when it loads"},
    {37, "IQ4_NL_4_8", "repack from IQ4_NL, which llama.cpp rearranges when it loads"},
    {38, "IQ4_NL_8_8", "repack from IQ4_NL, which llama.cpp rearranges when it loads"},
});

DType read_type(Cursor& cursor) {
  const std::uint64_t at = cursor.bytes.offset();
  const std::uint32_t id = cursor.bytes.u32("type");
  if (const auto dtype = dtype_from_ggml(id)) return *dtype;
  for (const RemovedType& removed : kRemovedTypes)
    if (removed.id == id)
      fail_at(at, ErrorCode::kUnsupported, "its type {} (ggml type {}) was removed from ggml; {}", removed.name, id,
              removed.advice);
  fail_at(at, ErrorCode::kUnsupported, "its type {} is none that ggml had when this version of wconv was made", id);
}

void read_shape(Cursor& cursor, TensorInfo& info) {
  std::uint64_t at = cursor.bytes.offset();
  const std::uint32_t n_dims = cursor.bytes.u32("n_dims");
  if (n_dims > kMaxDimensions) fail_at(at, ErrorCode::kCorrupt, "n_dims is {}; ggml allows {}", n_dims, kMaxDimensions);
  info.shape.resize(n_dims);
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    at = cursor.bytes.offset();
    const std::uint64_t dim = cursor.count("dimension");
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail_at(at, ErrorCode::kCorrupt, "dimension {} is {}, which is negative to ggml", i,
              static_cast<std::int64_t>(dim));
    info.shape[n_dims - 1 - i] = dim;
  }
}

TensorEntry read_entry(Cursor& cursor) {
  TensorEntry entry;
  entry.position = cursor.bytes.offset();
  entry.info.name = cursor.string("tensor name", kMaxNameRead);
  try {
    read_shape(cursor, entry.info);
    entry.info.dtype = read_type(cursor);
    entry.offset = cursor.bytes.u64("offset");
    entry.size = storage_bytes(entry.info.dtype, entry.info.shape);
  } catch (Error& error) {
    error.in_tensor(entry.info.name).at(entry.position);
    throw;
  }
  return entry;
}

void check_name(const TensorEntry& entry, FindingList& findings) {
  const std::string& name = entry.info.name;
  if (name.empty()) findings.warn("gguf-name", fmt::format("the tensor entry at byte {} has no name", entry.position));
  if (name.size() > kMaxNameBytes)
    findings.warn("gguf-name", fmt::format("the tensor name '{}' has {} bytes; llama.cpp loads at most {}",
                                           printable(name), name.size(), kMaxNameBytes));
  if (name.find('\0') != std::string::npos)
    findings.warn("gguf-name", fmt::format("the tensor name '{}' has a NUL byte inside", printable(name)));
  if (!is_utf8(name))
    findings.warn("gguf-name",
                  fmt::format("the tensor name '{}' is not UTF-8; only GGUF can hold it", printable(name)));
}

[[noreturn]] void fail_entry(const TensorEntry& entry, std::string message) {
  throw Error(ErrorCode::kCorrupt, std::move(message)).in_tensor(entry.info.name).at(entry.position);
}

// Indexes of the tensors in the order of `less`. Sorting, so that a hostile file cannot make it slow.
template <typename Less>
std::vector<std::uint32_t> sorted(const std::deque<TensorEntry>& tensors, const Less& less) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return less(tensors[a], tensors[b]); });
  return order;
}

void refuse_duplicates(const std::deque<TensorEntry>& tensors) {
  const auto order =
      sorted(tensors, [](const TensorEntry& a, const TensorEntry& b) { return a.info.name < b.info.name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (const TensorEntry& first = tensors[order[i - 1]], &second = tensors[order[i]];
        first.info.name == second.info.name)
      fail_entry(second,
                 fmt::format("two tensors have this name; the entry of the first is at byte {}", first.position));
}

// `data_bytes` may be anything, and so may the entry's numbers.
void check_range(const TensorEntry& entry, std::uint64_t alignment, std::uint64_t data_bytes) {
  if (entry.offset % alignment != 0)
    fail_entry(entry, fmt::format("its offset {} is not a multiple of the alignment {}", entry.offset, alignment));
  if (entry.offset > data_bytes || entry.size > data_bytes - entry.offset)
    fail_entry(entry,
               fmt::format("its {} bytes at offset {} end outside the file, which has {} bytes of tensor data; if "
                           "this is a partial download, get the whole file",
                           entry.size, entry.offset, data_bytes));
}

void check_order(const std::deque<TensorEntry>& tensors, FindingList& findings) {
  for (std::size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].offset < tensors[i - 1].offset)
      findings.warn("gguf-order",
                    fmt::format("the data of tensor '{}' comes before that of '{}', which is listed before "
                                "it; llama.cpp refuses such a file, converting it puts it right",
                                printable(tensors[i].info.name), printable(tensors[i - 1].info.name)));
}

}  // namespace

std::deque<TensorEntry> read_tensor_table(Cursor& cursor, std::uint64_t n, FindingList& findings) {
  const std::uint64_t begin = cursor.bytes.offset();
  std::deque<TensorEntry> tensors;
  for (std::uint64_t i = 0; i < n; ++i) {
    tensors.push_back(read_entry(cursor));
    if (cursor.bytes.offset() - begin > kMaxTableBytes)
      fail_at(begin, ErrorCode::kUnsupported, "the tensor table is longer than {} MiB", kMaxTableBytes >> 20);
    check_name(tensors.back(), findings);
  }
  refuse_duplicates(tensors);
  return tensors;
}

void check_offsets(const std::deque<TensorEntry>& tensors, std::uint64_t alignment, std::uint64_t data_bytes,
                   FindingList& findings) {
  for (const TensorEntry& entry : tensors) check_range(entry, alignment, data_bytes);
  check_order(tensors, findings);
  const auto order = sorted(tensors, [](const TensorEntry& a, const TensorEntry& b) { return a.offset < b.offset; });
  std::uint64_t end = 0;  // of the tensor before; sizes are inside the file by now
  const TensorEntry* before = nullptr;
  for (const std::uint32_t i : order) {
    const TensorEntry& entry = tensors[i];
    if (entry.size == 0) continue;
    if (entry.offset < end)
      fail_entry(entry, fmt::format("its data at offset {} overlaps that of tensor '{}', which ends at {}",
                                    entry.offset, printable(before->info.name), end));
    const std::uint64_t expected = (end + alignment - 1) / alignment * alignment;
    if (entry.offset > expected)
      findings.warn("gguf-gap", fmt::format("{} unused bytes before tensor '{}'; llama.cpp refuses such a file",
                                            entry.offset - expected, printable(entry.info.name)));
    end = entry.offset + entry.size;
    before = &entry;
  }
  const std::uint64_t padded = (end + alignment - 1) / alignment * alignment;
  if (data_bytes >= padded && data_bytes - padded >= alignment)
    findings.warn("gguf-trailing", fmt::format("{} bytes follow the last tensor", data_bytes - padded));
}

}  // namespace wconv::gguf
