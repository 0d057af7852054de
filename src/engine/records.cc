#include "engine/records.h"

#include <algorithm>

#include "core/hash.h"
#include "core/threads.h"
#include "engine/tiles.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {

void sort_by_path(std::vector<FileRecord>& files) {
  std::sort(files.begin(), files.end(), [](const FileRecord& a, const FileRecord& b) { return a.path < b.path; });
}
namespace engine {

void PartialCrc::add(std::uint64_t begin, std::uint32_t crc, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto at = parts_.insert_or_assign(begin, std::pair(crc, size)).first;
  if (const auto next = std::next(at); next != parts_.end() && next->first == begin + size) {
    at->second = {crc32_join(crc, next->second.first, next->second.second), size + next->second.second};
    parts_.erase(next);
  }
  if (at == parts_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second.second != begin) return;
  before->second = {crc32_join(before->second.first, at->second.first, at->second.second),
                    before->second.second + at->second.second};
  parts_.erase(at);
}

std::uint32_t PartialCrc::value() {
  const std::lock_guard lock(mutex_);
  std::uint32_t crc = 0;
  for (const auto& [begin, part] : parts_) crc = crc32_join(crc, part.first, part.second);
  return crc;
}

RecordCrcs::RecordCrcs(std::span<const RecordCheck> checks) : checks_(checks), crcs_(checks.size()) {
  for (std::size_t c = 0; c < checks.size(); ++c) by_file_[checks[c].range.file.get()].push_back(c);
  for (auto& [file, list] : by_file_) {
    std::stable_sort(list.begin(), list.end(),
                     [&](std::size_t a, std::size_t b) { return checks[a].range.offset < checks[b].range.offset; });
  }
}

void RecordCrcs::feed(const File* file, std::uint64_t begin, std::span<const std::byte> bytes) {
  const auto list = by_file_.find(file);
  if (list == by_file_.end()) return;
  const std::uint64_t end = begin + bytes.size();
  auto index = std::partition_point(list->second.begin(), list->second.end(), [&](std::size_t c) {
    return checks_[c].range.offset + checks_[c].range.size <= begin;
  });
  for (; index != list->second.end() && checks_[*index].range.offset < end; ++index) {
    const FileRange& range = checks_[*index].range;
    const std::uint64_t from = std::max(range.offset, begin), to = std::min(range.offset + range.size, end);
    if (from < to) crcs_[*index].add(from - range.offset, crc32(0, bytes.subspan(from - begin, to - from)), to - from);
  }
}

void RecordCrcs::require_sound() {
  for (std::size_t c = 0; c < crcs_.size(); ++c) {
    const RecordCheck& check = checks_[c];
    const std::uint32_t crc = crcs_[c].value();
    if (crc == check.crc32) continue;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("record '{}' is damaged: its CRC-32 is {:08x}, the archive says {:08x}", check.record, crc,
                            check.crc32))
        .in_file(check.range.file->path())
        .at(check.range.offset);
  }
}

}  // namespace engine

void check_records(const Model& model, unsigned threads, const std::atomic<int>* interrupted) {
  constexpr std::uint64_t kTile = 1024 * 1024;
  const auto files = engine::input_files(model);
  const auto tasks = engine::record_scans(model, kTile);
  engine::RecordCrcs records(model.checks);
  parallel_for(tasks.size(), threads, [&](std::size_t i) {
    if (interrupted && interrupted->load()) fail(ErrorCode::kInterrupted, "interrupted");
    const engine::Task& task = tasks[i];
    std::vector<std::byte> bytes(task.end - task.begin);
    files[task.file]->read(task.begin, bytes);
    records.feed(files[task.file], task.begin, bytes);
  });
  records.require_sound();
}

}  // namespace wconv
