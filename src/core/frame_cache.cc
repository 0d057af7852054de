#include "core/frame_cache.h"

#include <algorithm>
#include <exception>

#include "core/threads.h"

namespace wconv {

FrameCache& FrameCache::shared() {
  constexpr std::uint64_t kMiB = 1024 * 1024;
  static FrameCache cache(std::max<std::uint64_t>(32 * kMiB, 2 * kMiB * usable_cores()));
  return cache;
}

bool FrameCache::make_room(std::uint64_t bytes) {
  while (used_ + bytes > capacity_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const bool idle = entry->second.bytes && entry->second.readers == 0;
      if (idle && (oldest == entries_.end() || entry->second.last_use < oldest->second.last_use)) oldest = entry;
    }
    if (oldest == entries_.end()) return false;
    used_ -= oldest->second.size;
    spare_ = std::move(oldest->second);
    entries_.erase(oldest);
  }
  return true;
}

void FrameCache::fill(std::unique_lock<std::mutex>& lock, const Source& source, std::size_t frame) {
  const std::uint64_t size = source.frame_bytes(frame);
  const auto entry = entries_.emplace(Key{source.id, frame}, Entry{nullptr, size, ++clock_, 0}).first;
  used_ += size;
  std::unique_ptr<std::byte[]> bytes;
  if (spare_.size == size) bytes = std::move(spare_.bytes);
  spare_ = {};
  lock.unlock();
  std::exception_ptr error;
  try {
    if (!bytes) bytes = std::make_unique_for_overwrite<std::byte[]>(size);
    source.unpack(frame, {bytes.get(), size});
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) {
    used_ -= size;
    entries_.erase(entry);
  } else {
    entry->second.bytes = std::move(bytes);
  }
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
}

std::size_t FrameCache::frame_behind(const Source& source, std::size_t frame) const {
  const std::size_t ahead = capacity_ / 2 / source.frame_bytes(frame);
  for (std::size_t next = frame + 1; next < source.frames && next - frame <= ahead; ++next) {
    if (!entries_.contains({source.id, next})) return next;
  }
  return source.frames;
}

FrameCache::Entry& FrameCache::get(std::unique_lock<std::mutex>& lock, const Source& source, std::size_t frame) {
  while (true) {
    const auto entry = entries_.find({source.id, frame});
    if (entry != entries_.end() && entry->second.bytes) return entry->second;
    if (entry == entries_.end()) {
      if (make_room(source.frame_bytes(frame))) {
        fill(lock, source, frame);
        continue;
      }
    } else {
      const std::size_t next = frame_behind(source, frame);
      if (next < source.frames && make_room(source.frame_bytes(next))) {
        try {
          fill(lock, source, next);
        } catch (...) {  // whoever wants that frame finds out
        }
        continue;
      }
    }
    changed_.wait(lock);
  }
}

void FrameCache::read(const Source& source, std::size_t frame, std::uint64_t offset, std::span<std::byte> out) {
  std::unique_lock lock(mutex_);
  Entry& entry = get(lock, source, frame);
  entry.last_use = ++clock_;
  ++entry.readers;
  lock.unlock();
  std::copy_n(entry.bytes.get() + offset, out.size(), out.begin());
  lock.lock();
  if (--entry.readers == 0) changed_.notify_all();
}

bool FrameCache::contains(const Source& source, std::size_t frame) {
  const std::lock_guard lock(mutex_);
  return entries_.contains({source.id, frame});
}

void FrameCache::drop(std::uint64_t source_id) {
  const std::lock_guard lock(mutex_);
  const auto first = entries_.lower_bound({source_id, 0}), last = entries_.lower_bound({source_id + 1, 0});
  for (auto entry = first; entry != last; ++entry) used_ -= entry->second.size;
  entries_.erase(first, last);
}

}  // namespace wconv
