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

#include "wconv/descriptor.h"

namespace wconv {

// Bytes that reading holds at most.
struct ReadMemory {
  std::uint64_t shared = 0, per_thread = 0;
};

// Bytes that are made when they are read: what a compressed file unpacks to. Immutable; any thread may read.
class FileContent {
 public:
  virtual ~FileContent() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `out` from a range that lies within size(). Throws Error(kIo | kCorrupt).
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  virtual ReadMemory memory() const = 0;
};

// Immutable once open; every method may be called from many threads at once. Closed with the last owner, or between
// two reads where many are open: then each read proves that it is still the file that was opened.
class File {
 public:
  // Opens a regular file; follows symbolic links. Never blocks on a FIFO. Throws Error(kMissing) where it does not
  // exist, Error(kIo) where it cannot be read, Error(kUsage) where it is a folder, device, FIFO or socket.
  static std::shared_ptr<const File> open(const std::string& path);
  // Bytes in memory under a made-up name, for tests and fuzzing.
  static std::shared_ptr<const File> from_bytes(std::string path, std::span<const std::byte> bytes);
  // What `stored` unpacks to, under its name.
  static std::shared_ptr<const File> from_content(std::shared_ptr<const File> stored,
                                                  std::unique_ptr<const FileContent> content);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  bool is_on_disk() const { return descriptor_ != nullptr; }         // neither in memory nor unpacked when read
  Descriptor::Use descriptor() const { return descriptor_->use(); }  // of a file on disk
  // The file that lies on disk: this one, or the compressed one that it is the content of.
  const File& stored() const { return stored_ ? *stored_ : *this; }
  bool is_unpacked() const { return stored_ != nullptr; }
  ReadMemory memory() const { return content_ ? content_->memory() : ReadMemory{}; }

  // Reads exactly out.size() bytes. Throws Error(kIo) with the path and offset when the file is shorter than that now,
  // Error(kInterrupted) by interrupt_reads_on.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  // Throws Error(kIo) when size or modification time are not what they were at open.
  void check_unchanged() const;

 private:
  File() = default;
  std::string path_;
  std::uint64_t size_ = 0;
  std::unique_ptr<const Descriptor> descriptor_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<const File> stored_;
  std::unique_ptr<const FileContent> content_;
};

}  // namespace wconv
