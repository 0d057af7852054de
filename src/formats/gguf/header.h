// Everything of one GGUF file but the weights, proved.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "formats/gguf/findings.h"
#include "wconv/byte_reader.h"
#include "wconv/file.h"
#include "wconv/model.h"

namespace wconv::gguf {

// A ByteReader that knows how wide lengths and counts are: 32 bits in version 1, 64 since.
struct Cursor {
  ByteReader bytes;
  std::uint32_t version = 0;

  std::uint64_t count_bytes() const { return version == 1 ? 4 : 8; }
  std::uint64_t count(std::string_view field) { return version == 1 ? bytes.u32(field) : bytes.u64(field); }
  // The length of a string that follows and is all there. Longer than `most` is Error(kUnsupported).
  std::uint64_t length(std::string_view field, std::uint64_t most);
  std::string text(std::uint64_t size, std::string_view field);
  // Both: length and bytes.
  std::string string(std::string_view field, std::uint64_t most) { return text(length(field, most), field); }
  // Throws Error(kCorrupt) unless `n` entries of at least `entry_bytes` can follow; `field` is the count, at byte `at`.
  void require(std::uint64_t n, std::uint64_t entry_bytes, std::string_view field, std::uint64_t at);
};

struct Preamble {
  bool big_endian = false;
  std::uint64_t tensors = 0, keys = 0;
  std::uint64_t tensors_at = 0, keys_at = 0;  // byte offsets of the two counts
};

// Magic, version and counts; sets the cursor's byte order and version.
Preamble read_preamble(Cursor& cursor);

// `n` key-value pairs; `positions` gets the byte offset of each. They are proved whole before any is kept. Duplicate
// keys are Error(kCorrupt), more than kMaxMetadataBytes is Error(kUnsupported).
Metadata read_metadata(Cursor& cursor, std::uint64_t n, FindingList& findings, std::vector<std::uint64_t>& positions);

struct TensorEntry {
  TensorInfo info;
  std::uint64_t offset = 0;    // from the start of the data
  std::uint64_t size = 0;      // bytes
  std::uint64_t position = 0;  // of the entry in the file, for messages
};

// `n` tensor entries: names, shapes and types proved, offsets not yet. A table longer than kMaxTableBytes is
// Error(kUnsupported).
std::deque<TensorEntry> read_tensor_table(Cursor& cursor, std::uint64_t n, FindingList& findings);

// Offsets are aligned, inside `data_bytes`, and don't overlap; gaps and another order than the table's are findings.
void check_offsets(const std::deque<TensorEntry>& tensors, std::uint64_t alignment, std::uint64_t data_bytes,
                   FindingList& findings);

struct Header {
  std::shared_ptr<const File> file;
  std::uint32_t version = 0;
  bool big_endian = false;
  Metadata metadata;
  std::vector<std::uint64_t> key_positions;  // byte offset of each entry of `metadata`
  std::deque<TensorEntry> tensors;           // a deque gives its memory back while it is emptied
  std::uint64_t data_begin = 0;              // byte offset in the file
  std::vector<Finding> findings;
  // Byte offset of the entry with this key, which is there.
  std::uint64_t position_of(std::string_view key) const;
};

// Throws Error(kCorrupt | kUnsupported | kIo) that names the file.
Header read_header(std::shared_ptr<const File> file);

// What does not fit together in sound metadata: warnings, never an error.
void check_metadata(const Metadata& metadata, FindingList& findings);

}  // namespace wconv::gguf
