// An output file that is compressed: frames appended in order, and the table of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/hash.h"
#include "core/zstd_writer.h"
#include "wconv/descriptor.h"
#include "wconv/engine.h"
#include "wconv/layout.h"

namespace wconv::engine {

// `begin` of a frame counts bytes of the content. Errors carry the output's name and the offset in the file.
class PackedFile {
 public:
  PackedFile(const OutputFile& plan, const Descriptor& descriptor, bool hash);
  // Compresses a frame into the bytes behind it: `tile` is the content and zstd_frame_bound more. Any thread, in any
  // order.
  void pack(std::uint64_t begin, std::uint64_t size, std::span<std::byte> tile);
  // Writes a frame behind the one before it; packs it where that has not been done. One thread at a time, in order.
  void append(std::uint64_t begin, std::uint64_t size, std::span<std::byte> tile);
  FileRecord finish();  // writes the table

 private:
  void write(std::span<const std::byte> bytes);
  const OutputFile& plan_;
  const Descriptor& descriptor_;
  const bool hash_;
  std::vector<std::uint32_t> frames_;  // bytes of each; 0: not packed yet
  std::uint64_t size_ = 0;             // of the file
  Sha256 sha_;
  std::mutex mutex_;  // guards compressors_
  std::vector<std::unique_ptr<ZstdCompressor>> compressors_;
};

}  // namespace wconv::engine
