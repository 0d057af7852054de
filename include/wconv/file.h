// An input file, read by position.
//
// wconv maps no input: a file that shrinks while it is read is then an error and not a SIGBUS (docs/adr/0001).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace wconv {

// Immutable once open; every method may be called from many threads at once. Closed with the last owner.
class File {
 public:
  // Opens a regular file; follows symbolic links. Never blocks on a FIFO. Throws Error(kMissing) where it does not
  // exist, Error(kIo) where it cannot be read, Error(kUsage) where it is a folder, device, FIFO or socket.
  static std::shared_ptr<const File> open(const std::string& path);
  // Bytes in memory under a made-up name, for tests and fuzzing.
  static std::shared_ptr<const File> from_bytes(std::string path, std::span<const std::byte> bytes);
  // Takes over a descriptor of an unlinked temporary file.
  static std::shared_ptr<const File> from_descriptor(std::string path, int descriptor);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }  // -1: in memory

  // Reads exactly out.size() bytes. Throws Error(kIo) with the path and offset when the file is shorter than that now.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  // Throws Error(kIo) when size or modification time are not what they were at open.
  void check_unchanged() const;

 private:
  File() = default;
  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
  std::int64_t mtime_ns_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace wconv
