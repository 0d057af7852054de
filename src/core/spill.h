// A temporary file for what has to be unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

namespace wconv {

// An unlinked temporary file below TMPDIR (or /tmp), made at the first use. Any thread may use it.
class Spill {
 public:
  Spill() = default;
  ~Spill();
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  std::uint64_t reserve(std::uint64_t bytes);                          // offset of a new range; makes the file
  void write(std::uint64_t offset, std::span<const std::byte> bytes);  // makes the file. Throws Error(kIo)
  void read(std::uint64_t offset, std::span<std::byte> out) const;     // Throws Error(kIo)
  // Throws Error(kIo) unless the disk has room for `bytes` more.
  void require_room(std::uint64_t bytes);

 private:
  std::mutex mutex_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace wconv
