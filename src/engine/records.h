// CRC-32 of ranges that are read in parts, by any thread, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "wconv/model.h"

namespace wconv::engine {

// CRC-32 of one range; `begin` counts from its start. Thread-safe.
class PartialCrc {
 public:
  void add(std::uint64_t begin, std::uint32_t crc, std::uint64_t size);
  std::uint32_t value();  // of the parts so far, in ascending order

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> parts_;  // by begin: CRC, size; no two touch
};

// The records of a model that carry a CRC-32. They do not overlap. `checks` outlives this.
class RecordCrcs {
 public:
  explicit RecordCrcs(std::span<const RecordCheck> checks);
  // `bytes` lie in `file` from `begin` on. Thread-safe.
  void feed(const File* file, std::uint64_t begin, std::span<const std::byte> bytes);
  // After all bytes of all records were fed. Throws Error(kCorrupt) for the first record that is damaged.
  void require_sound();

 private:
  std::span<const RecordCheck> checks_;
  std::map<const File*, std::vector<std::size_t>> by_file_;  // indexes of checks_, ascending by offset
  std::vector<PartialCrc> crcs_;                             // for each of checks_
};

}  // namespace wconv::engine
