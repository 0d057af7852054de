// Reading and proving the tensor table.
//
//   name: string | n_dims: u32 | dims: n_dims counts, innermost first | type: u32 | offset: u64, from the data's start
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_set>

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

DType known_type(std::uint32_t id) {
  if (const auto dtype = dtype_from_ggml(id)) return *dtype;
  for (const RemovedType& removed : kRemovedTypes)
    if (removed.id == id)
      fail(ErrorCode::kUnsupported, "its type {} (ggml type {}) was removed from ggml; {}", removed.name, id,
           removed.advice);
  fail(ErrorCode::kUnsupported, "its ggml type {} is not known", id);
}

void read_shape(Cursor& cursor, TensorInfo& info) {
  const std::uint32_t n_dims = cursor.bytes.u32("n_dims");
  if (n_dims > kMaxDimensions) fail(ErrorCode::kCorrupt, "n_dims is {}; ggml allows {}", n_dims, kMaxDimensions);
  info.shape.resize(n_dims);
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    const std::uint64_t dim = cursor.count("dimension");
    if (dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail(ErrorCode::kCorrupt, "dimension {} is {}, which is negative to ggml", i, static_cast<std::int64_t>(dim));
    info.shape[n_dims - 1 - i] = dim;
  }
}

TensorEntry read_entry(Cursor& cursor) {
  TensorEntry entry;
  entry.position = cursor.bytes.offset();
  entry.info.name = cursor.string("tensor name");
  try {
    read_shape(cursor, entry.info);
    entry.info.dtype = known_type(cursor.bytes.u32("type"));
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
}

[[noreturn]] void fail_entry(const TensorEntry& entry, std::string message) {
  throw Error(ErrorCode::kCorrupt, std::move(message)).in_tensor(entry.info.name).at(entry.position);
}

}  // namespace

std::vector<TensorEntry> read_tensor_table(Cursor& cursor, std::uint64_t n, FindingList& findings) {
  cursor.require(n, cursor.count_bytes() + 16, "tensors");
  std::vector<TensorEntry> tensors;
  tensors.reserve(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    tensors.push_back(read_entry(cursor));
    check_name(tensors.back(), findings);
  }
  std::unordered_set<std::string_view> seen;
  seen.reserve(n);
  for (const TensorEntry& entry : tensors)
    if (!seen.insert(entry.info.name).second) fail_entry(entry, "two tensors have this name");
  return tensors;
}

void check_offsets(const std::vector<TensorEntry>& tensors, std::uint64_t alignment, std::uint64_t data_bytes,
                   FindingList& findings) {
  for (const TensorEntry& entry : tensors) {
    if (entry.offset % alignment != 0)
      fail_entry(entry, fmt::format("its offset {} is not a multiple of the alignment {}", entry.offset, alignment));
    if (entry.offset > data_bytes || entry.size > data_bytes - entry.offset)
      fail_entry(entry, fmt::format("its {} bytes at offset {} end outside the file, which has {} bytes of tensor data",
                                    entry.size, entry.offset, data_bytes));
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return tensors[i].size == 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].offset < tensors[b].offset; });
  std::uint64_t end = 0;  // of the tensor before; sizes are inside the file by now
  const TensorEntry* before = nullptr;
  for (std::size_t i : order) {
    const TensorEntry& entry = tensors[i];
    if (entry.offset < end)
      fail_entry(entry, fmt::format("its data overlaps that of tensor '{}'", printable(before->info.name)));
    const std::uint64_t expected = (end + alignment - 1) / alignment * alignment;
    if (entry.offset > expected)
      findings.warn("gguf-gap", fmt::format("{} unused bytes before tensor '{}'; llama.cpp refuses such a file",
                                            entry.offset - expected, printable(entry.info.name)));
    end = entry.offset + entry.size;
    before = &entry;
  }
  if (data_bytes > end && data_bytes - end >= alignment + (alignment - end % alignment) % alignment)
    findings.warn("gguf-trailing", fmt::format("{} bytes follow the last tensor", data_bytes - end));
}

}  // namespace wconv::gguf
