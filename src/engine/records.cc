#include "engine/records.h"

#include <algorithm>
#include <vector>

#include "core/hash.h"
#include "core/threads.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace engine {

void PartialCrc::add(std::uint64_t begin, std::uint32_t crc, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  parts_[begin] = {crc, size};
}

std::uint32_t PartialCrc::value() {
  const std::lock_guard lock(mutex_);
  std::uint32_t crc = 0;
  for (const auto& [begin, part] : parts_) crc = crc32_join(crc, part.first, part.second);
  return crc;
}

void require_crc(const RecordCheck& check, std::uint32_t crc) {
  if (crc == check.crc32) return;
  throw Error(ErrorCode::kCorrupt, fmt::format("record '{}' is damaged: its CRC-32 is {:08x}, the archive says {:08x}",
                                               check.record, crc, check.crc32))
      .in_file(check.range.file->path())
      .at(check.range.offset);
}

}  // namespace engine

void check_records(const Model& model, unsigned threads, const std::atomic<int>* interrupted) {
  constexpr std::uint64_t kSlice = 1024 * 1024;
  struct Slice {
    std::size_t check = 0;
    std::uint64_t begin = 0, size = 0;
  };
  std::vector<Slice> slices;
  for (std::size_t c = 0; c < model.checks.size(); ++c) {
    const std::uint64_t size = model.checks[c].range.size;
    for (std::uint64_t begin = 0; begin < size; begin += kSlice) slices.push_back({c, begin, std::min(kSlice, size - begin)});
  }
  std::vector<engine::PartialCrc> crcs(model.checks.size());
  parallel_for(slices.size(), threads, [&](std::size_t i) {
    if (interrupted && interrupted->load()) fail(ErrorCode::kInterrupted, "interrupted");
    const Slice& slice = slices[i];
    const FileRange& range = model.checks[slice.check].range;
    std::vector<std::byte> bytes(slice.size);
    range.file->read(range.offset + slice.begin, bytes);
    crcs[slice.check].add(slice.begin, crc32(0, bytes), slice.size);
  });
  for (std::size_t c = 0; c < crcs.size(); ++c) engine::require_crc(model.checks[c], crcs[c].value());
}

}  // namespace wconv
