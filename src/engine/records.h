// CRC-32 of zip records, computed from parts that any thread may read in any order.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "wconv/model.h"

namespace wconv::engine {

// CRC-32 of a range whose parts arrive in any order; `begin` counts from the start of the range. Thread-safe.
class PartialCrc {
 public:
  void add(std::uint64_t begin, std::uint32_t crc, std::uint64_t size);
  std::uint32_t value();  // of the parts so far, in ascending order

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> parts_;
};

// Throws Error(kCorrupt), with the file and the record's name and offset, when `crc` is not what the archive says.
void require_crc(const RecordCheck& check, std::uint32_t crc);

}  // namespace wconv::engine
