// Where the frames of a zstd file lie, and what they unpack to.
//
// Sources: RFC 8878 (frames and blocks); the zstd seekable format 0.1.0 (the table at the end of a file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wconv/file.h"

namespace wconv {

constexpr std::uint32_t kZstdTableFrameMagic = 0x184D2A5E, kZstdTableMagic = 0x8F92EAB1;
constexpr std::uint64_t kZstdMaxWindow = 128 * 1024 * 1024;  // what `zstd -d` allows too

// The descriptor at the start of a frame.
struct ZstdFrameHeader {
  std::uint64_t size = 0;                     // of this header
  std::uint64_t window = 0;                   // bytes that unpacking has to remember
  std::optional<std::uint64_t> content_size;  // where it is stated
  std::uint64_t skip = 0;                     // of a skippable frame: bytes after the header; it holds no content
  bool skippable = false;
  bool checksum = false;  // four bytes follow the last block
};

// `bytes`: the first of a frame, 18 or up to the end of the file. `offset` says where, for errors.
// Throws Error(kCorrupt) for what is no frame, Error(kUnsupported) for a dictionary or too large a window.
ZstdFrameHeader read_zstd_frame_header(std::span<const std::byte> bytes, std::uint64_t offset);

// True for the first bytes (at least 4) of a zstd file: a frame or a skippable one.
bool starts_zstd(std::span<const std::byte> head);

struct ZstdFrame {
  std::uint64_t stored_begin = 0, stored_size = 0;  // bytes in the file
  std::uint64_t begin = 0, size = 0;                // bytes of the content
  std::optional<std::uint32_t> checksum;            // low half of the content's XXH64, from a seek table
};

struct ZstdIndex {
  std::vector<ZstdFrame> frames;  // those with content, in order
  std::uint64_t size = 0;         // of the content
  std::uint64_t max_frame = 0;    // the largest frame, stored or unpacked
  std::uint64_t max_window = 0;   // with a seek table: of the first frame
  bool complete = true;           // false: a frame does not state its size; frames and size are not known
};

// Takes the seek table, or, where there is none, walks over the headers of all frames and blocks. Throws
// Error(kCorrupt) with the byte offset for frames that are cut off, other bytes between or after them, and tables that
// do not fit the file; Error(kUnsupported).
ZstdIndex index_zstd(const File& file);

}  // namespace wconv
