// Seekable zstd: frames of one size, each compressed by itself, and the table of their sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wconv {

constexpr std::uint64_t kZstdFrameBytes = 1024 * 1024;  // of content; the last frame has fewer
constexpr int kZstdDefaultLevel = 3, kZstdMaxLevel = 22;

std::uint64_t zstd_frame_bound(std::uint64_t content_bytes);  // that a frame takes at most
std::uint64_t zstd_file_bound(std::uint64_t content_bytes);   // that the whole file takes at most
std::uint64_t zstd_compress_memory(int level);                // that one compressor holds

// Not thread-safe. The same input, level and version of libzstd give the same bytes.
class ZstdCompressor {
 public:
  explicit ZstdCompressor(int level);
  ~ZstdCompressor();
  ZstdCompressor(const ZstdCompressor&) = delete;
  ZstdCompressor& operator=(const ZstdCompressor&) = delete;
  // One frame with its size and a checksum; `out` has zstd_frame_bound(content.size()) bytes. Returns how many it
  // takes.
  std::size_t compress(std::span<const std::byte> content, std::span<std::byte> out);
  std::uint64_t memory_bytes() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The skippable frame that ends the file. `frames`: stored bytes of each, all of kZstdFrameBytes of content but the
// last.
std::vector<std::byte> zstd_seek_table(std::span<const std::uint32_t> frames, std::uint64_t content_bytes);

}  // namespace wconv
