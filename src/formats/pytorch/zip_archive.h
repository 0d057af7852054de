// Zip archives as torch.save writes them, and as other people's tools re-write them.
//
// Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/spill.h"
#include "wconv/file.h"
#include "wconv/model.h"

namespace wconv::pytorch {

// Of record extra/wconv_metadata.json, which keeps the metadata that a state_dict has no place for: vocabularies of
// GGUF files take tens of MB.
inline constexpr std::uint64_t kMaxMetadataBytes = 128 * 1024 * 1024;

struct ZipRecord {
  std::string name;
  std::uint64_t data_offset = 0;      // of the (compressed) bytes in the file
  std::uint64_t compressed_size = 0;  // bytes in the file
  std::uint64_t size = 0;             // bytes when unpacked
  std::uint32_t crc32 = 0;            // of the unpacked bytes
  bool deflated = false;
};

// Proves the central directory and every local header before anything is believed. Immutable; any thread may use it.
class ZipArchive {
 public:
  // Throws Error(kCorrupt | kUnsupported) naming record, byte offset, what was found and what is allowed: duplicate
  // names, local headers that disagree with the central directory, encryption and other flags, methods other than
  // stored and deflated, overlapping records, ranges outside the file, impossible sizes, a missing directory.
  explicit ZipArchive(std::shared_ptr<const File> file);
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  const std::vector<ZipRecord>& records() const { return records_; }  // in the order of the directory
  const ZipRecord* find(std::string_view name) const;                 // null: absent

  // The unpacked bytes as tensor data. Stored: the file's own range. Deflated: unpacked at the first read into an
  // unlinked temporary file that all records share; the CRC is checked then.
  std::shared_ptr<const TensorData> data(const ZipRecord& record) const;
  // The check that the engine must make for a stored record; call it only for records whose data is used.
  RecordCheck check(const ZipRecord& record) const;

  // A record that must be looked into (data.pkl, byteorder, …), its CRC checked: `file` from `begin` to `end`.
  struct Content {
    std::shared_ptr<const File> file;
    std::uint64_t begin = 0, end = 0;
  };
  Content content(const ZipRecord& record) const;

 private:
  std::shared_ptr<const File> file_;
  std::vector<ZipRecord> records_;
  std::unordered_map<std::string_view, std::size_t> index_;  // into records_
  std::shared_ptr<Spill> spill_;
};

}  // namespace wconv::pytorch
