// Deflated zip records, unpacked once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "formats/pytorch/zip_archive.h"

namespace wconv::pytorch {

// An unlinked temporary file below TMPDIR (or /tmp), made at the first use. Any thread may use it.
class Spill {
 public:
  Spill() = default;
  ~Spill();
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  std::uint64_t reserve(std::uint64_t bytes);                          // offset of a new range
  void write(std::uint64_t offset, std::span<const std::byte> bytes);  // Throws Error(kIo)
  void read(std::uint64_t offset, std::span<std::byte> out) const;     // Throws Error(kIo)

 private:
  std::mutex mutex_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// The bytes of a deflated record. Unpacked into `spill` at the first read, when Error(kCorrupt) is thrown unless size
// and CRC-32 are as the directory says.
std::shared_ptr<const TensorData> inflated_tensor(std::shared_ptr<const File> file, const ZipRecord& record,
                                                  std::shared_ptr<Spill> spill);

}  // namespace wconv::pytorch
