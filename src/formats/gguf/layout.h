// Constants and small rules that the reader and the writer share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wconv/model.h"

namespace wconv::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint32_t kVersion = 3;  // written
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::size_t kMaxDimensions = 4;    // GGML_MAX_DIMS
inline constexpr std::size_t kMaxNameBytes = 63;    // GGML_MAX_NAME less its NUL
inline constexpr std::size_t kMaxKeyBytes = 65535;  // the specification's limit
inline constexpr int kMaxDepth = 16;                // of arrays within arrays

// What a header may ask for; no model comes near. A tensor takes some 200 bytes of memory while the table is read.
inline constexpr std::uint64_t kMaxTensors = 1 << 18;
inline constexpr std::uint64_t kMaxMetadataBytes = 128 << 20;  // in memory: 32 for a string, 8 for a number
inline constexpr std::uint64_t kMaxTableBytes = 32 << 20;      // of tensor entries in the file
inline constexpr std::uint64_t kMaxNameRead = 65535;           // bytes of a tensor name

inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kArchitectureKey = "general.architecture";
inline constexpr std::string_view kSplitNoKey = "split.no";                  // u16, from 0
inline constexpr std::string_view kSplitCountKey = "split.count";            // u16
inline constexpr std::string_view kSplitTensorsKey = "split.tensors.count";  // i32, over all parts

inline constexpr std::uint64_t kMaxParts = 65535;

inline bool is_split_key(std::string_view key) {
  return key == kSplitNoKey || key == kSplitCountKey || key == kSplitTensorsKey;
}

// "STEM-00001-of-00003.gguf"; `index` counts from 0.
std::string part_name(std::string_view stem, std::uint64_t index, std::uint64_t count);

// The alignment that the metadata states, or 32. Throws Error(kCorrupt) unless it is a u32 power of two, as ggml does.
std::uint64_t stated_alignment(const Metadata& metadata);

}  // namespace wconv::gguf
