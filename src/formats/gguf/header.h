// Everything of one GGUF file but the weights, proved.
#pragma once

#include <cstdint>
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
  std::string string(std::string_view field);
  // Throws Error(kCorrupt) unless `n` entries of at least `entry_bytes` can follow.
  void require(std::uint64_t n, std::uint64_t entry_bytes, std::string_view field);
};

struct Preamble {
  bool big_endian = false;
  std::uint64_t tensors = 0, keys = 0;
};

// Magic, version and counts; sets the cursor's byte order and version.
Preamble read_preamble(Cursor& cursor);

// `n` key-value pairs. Duplicate keys are Error(kCorrupt).
Metadata read_metadata(Cursor& cursor, std::uint64_t n, FindingList& findings);

struct TensorEntry {
  TensorInfo info;
  std::uint64_t offset = 0;    // from the start of the data
  std::uint64_t size = 0;      // bytes
  std::uint64_t position = 0;  // of the entry in the file, for messages
};

// `n` tensor entries: names, shapes and types proved, offsets not yet.
std::vector<TensorEntry> read_tensor_table(Cursor& cursor, std::uint64_t n, FindingList& findings);

// Offsets are aligned, inside `data_bytes`, and don't overlap; gaps are findings.
void check_offsets(const std::vector<TensorEntry>& tensors, std::uint64_t alignment, std::uint64_t data_bytes,
                   FindingList& findings);

struct Header {
  std::shared_ptr<const File> file;
  std::uint32_t version = 0;
  bool big_endian = false;
  Metadata metadata;
  std::vector<TensorEntry> tensors;
  std::uint64_t data_begin = 0;  // byte offset in the file
  std::vector<Finding> findings;
};

// Throws Error(kCorrupt | kUnsupported | kIo) that names the file.
Header read_header(std::shared_ptr<const File> file);

// What does not fit together in sound metadata: warnings, never an error.
void check_metadata(const Metadata& metadata, FindingList& findings);

}  // namespace wconv::gguf
