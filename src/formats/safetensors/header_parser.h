// The JSON header of a safetensors file, parsed as a stream: memory grows with the tensors found, not with the text.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wconv/file.h"
#include "wconv/tensor.h"

namespace wconv::safetensors {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
inline constexpr std::size_t kMaxRank = 64;                    // numpy has no more dimensions
inline constexpr std::size_t kMaxTensors = 1 << 19;  // our own: a header of the shortest entries could hold 1.7 million

struct Entry {
  TensorInfo info;
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data
  std::uint64_t position = 0;        // file offset of its fields, for messages
};

struct Header {
  std::deque<Entry>
      entries;  // in the header's order; names are unique. A deque can be consumed and never copies itself
  std::vector<std::pair<std::string, std::string>> metadata;  // in the header's order; keys are unique
  std::optional<std::uint64_t> metadata_at;                   // file offset of its object, which may be without keys
  std::uint64_t data_begin = 0;                               // file offset of the first data byte
};

// Throws Error(kCorrupt) with the field or tensor and the byte offset. Ranges of entries are not checked here.
Header parse_header(const std::shared_ptr<const File>& file);

}  // namespace wconv::safetensors
