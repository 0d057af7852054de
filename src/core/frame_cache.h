// Unpacked frames of compressed files, shared by all threads and files.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace wconv {

// Holds at most capacity() bytes; what was used least recently makes room. Any thread may use it.
class FrameCache {
 public:
  struct Source {
    std::uint64_t id = 0;  // of the file
    std::size_t frames = 0;
    std::function<std::uint64_t(std::size_t frame)> frame_bytes;  // at most capacity() / 4
    // Fills `out` with all of a frame. May throw.
    std::function<void(std::size_t frame, std::span<std::byte> out)> unpack;
  };

  explicit FrameCache(std::uint64_t capacity) : capacity_(capacity) {}
  static FrameCache& shared();  // of the process: 2 MiB for each core, at least 32 MiB
  std::uint64_t capacity() const { return capacity_; }

  // Copies bytes of a frame. A frame is unpacked by one thread: others that want it unpack the frames behind it
  // meanwhile, so that threads which read on together keep all cores busy. Throws what unpack throws.
  void read(const Source& source, std::size_t frame, std::uint64_t offset, std::span<std::byte> out);
  bool contains(const Source& source, std::size_t frame);  // or is about to
  void drop(std::uint64_t source_id);                      // when its file is closed

 private:
  using Key = std::pair<std::uint64_t, std::size_t>;
  struct Entry {
    std::unique_ptr<std::byte[]> bytes;  // null while a thread unpacks it
    std::uint64_t size = 0, last_use = 0;
    unsigned readers = 0;
  };
  // With the mutex held; keeps the last frame that it drops as the spare one. False: too many are in use.
  bool make_room(std::uint64_t bytes);
  // Unpacks a frame that is not there; the lock is released meanwhile.
  void fill(std::unique_lock<std::mutex>& lock, const Source& source, std::size_t frame);
  // The first of the frames behind this one that is not there; source.frames: none.
  std::size_t frame_behind(const Source& source, std::size_t frame) const;
  // Waits until the frame is there.
  Entry& get(std::unique_lock<std::mutex>& lock, const Source& source, std::size_t frame);

  const std::uint64_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Entry> entries_;
  Entry spare_;  // reused at once: frames of one size then take no new memory
  std::uint64_t used_ = 0, clock_ = 0;
};

}  // namespace wconv
