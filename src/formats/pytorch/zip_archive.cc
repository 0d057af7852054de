#include "formats/pytorch/zip_archive.h"

#include <algorithm>
#include <vector>

#include "core/hash.h"
#include "formats/pytorch/inflate.h"
#include "formats/pytorch/zip_directory.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::uint64_t kLocalHeaderBytes = 30;

// Returns where the record's data begins. Everything the local header says must be what the directory says.
std::uint64_t check_local_header(const std::shared_ptr<const File>& file, const DirectoryEntry& entry,
                                 std::uint64_t limit) {
  const ZipRecord& record = entry.record;
  const std::uint64_t at = entry.header_offset;
  const std::string shown = printable(record.name);
  if (at > limit || limit - at < kLocalHeaderBytes + record.name.size()) {
    fail_at(entry.entry_offset, ErrorCode::kCorrupt,
            "record '{}' begins at byte {}, which is not before the zip directory at {}", shown, at, limit);
  }
  ByteReader reader(file, at, at + kLocalHeaderBytes + record.name.size());
  if (reader.u32("zip local header") != kLocalHeaderMark)
    fail_at(at, ErrorCode::kCorrupt, "record '{}' has no local header where the directory says", shown);
  reader.skip(2, "zip version");
  const std::uint16_t flags = reader.u16("zip flags"), method = reader.u16("zip method");
  check_flags(flags, record.name, at);
  reader.skip(4, "zip time");
  const std::uint32_t crc = reader.u32("zip CRC-32");
  std::uint64_t compressed = reader.u32("zip compressed size"), size = reader.u32("zip size");
  const std::uint16_t name_size = reader.u16("zip name length"), extra_size = reader.u16("zip extra length");
  const bool same_name =
      name_size == record.name.size() && reader.take_text(name_size, "zip record name") == record.name;
  if (!same_name) {
    fail_at(at, ErrorCode::kCorrupt,
            "the local header of record '{}' has another name than the directory; readers would disagree", shown);
  }
  if (method != entry.method) {
    fail_at(at, ErrorCode::kCorrupt, "record '{}' has method {} in its local header and {} in the directory", shown,
            method, entry.method);
  }
  const std::uint64_t data = reader.offset() + extra_size;
  if (data > limit || record.compressed_size > limit - data) {
    fail_at(at, ErrorCode::kCorrupt, "record '{}' would be {} bytes from byte {} on; the zip directory begins at {}",
            shown, record.compressed_size, data, limit);
  }
  if (!(flags & kHasDescriptor)) {
    ByteReader extra(file, reader.offset(), data);
    std::uint64_t* const wide[] = {&size, &compressed};
    read_zip64(extra.take(extra_size, "zip extra fields"), wide, record.name, at);
    if (size != record.size || compressed != record.compressed_size || crc != record.crc32) {
      fail_at(at, ErrorCode::kCorrupt,
              "record '{}' has another size or CRC-32 in its local header than in the directory", shown);
    }
  }
  return data;
}

void check_overlap(std::vector<DirectoryEntry>& entries) {
  std::vector<const DirectoryEntry*> sorted;
  for (const DirectoryEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->header_offset < b->header_offset; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const ZipRecord& before = sorted[i - 1]->record;
    if (before.data_offset + before.compressed_size > sorted[i]->header_offset) {
      fail_at(sorted[i]->header_offset, ErrorCode::kCorrupt, "records '{}' and '{}' overlap", printable(before.name),
              printable(sorted[i]->record.name));
    }
  }
}

}  // namespace

ZipArchive::ZipArchive(std::shared_ptr<const File> file) : file_(std::move(file)), spill_(std::make_shared<Spill>()) {
  Directory directory = read_directory(file_);
  for (DirectoryEntry& entry : directory.entries) {
    entry.record.data_offset = check_local_header(file_, entry, directory.offset);
  }
  check_overlap(directory.entries);
  records_.reserve(directory.entries.size());
  for (DirectoryEntry& entry : directory.entries) {
    records_.push_back(std::move(entry.record));
    if (!index_.emplace(records_.back().name, records_.size() - 1).second) {
      fail_at(entry.entry_offset, ErrorCode::kCorrupt, "two records are called '{}'; readers disagree which one counts",
              printable(records_.back().name));
    }
  }
}

const ZipRecord* ZipArchive::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &records_[found->second];
}

std::shared_ptr<const TensorData> ZipArchive::data(const ZipRecord& record) const {
  if (record.deflated) return inflated_tensor(file_, record, spill_);
  return file_tensor(file_, record.data_offset, record.size);
}

RecordCheck ZipArchive::check(const ZipRecord& record) const {
  return {{file_, record.data_offset, record.size}, record.crc32, record.name};
}

ZipArchive::Content ZipArchive::content(const ZipRecord& record) const {
  constexpr std::uint64_t kChunk = 1024 * 1024, kMaxUnpacked = 64 * 1024 * 1024;
  if (record.deflated) {
    if (record.size > kMaxUnpacked) {
      fail_at(record.data_offset, ErrorCode::kUnsupported, "record '{}' is deflated and {} bytes long; {} are allowed",
              printable(record.name), record.size, kMaxUnpacked);
    }
    std::vector<std::byte> bytes(record.size);
    data(record)->read(0, bytes);
    return {File::from_bytes(file_->path(), bytes), 0, record.size};
  }
  std::vector<std::byte> chunk(std::min(record.size, kChunk));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < record.size; done += kChunk) {
    const auto part = std::span(chunk).first(std::min(kChunk, record.size - done));
    file_->read(record.data_offset + done, part);
    crc = crc32(crc, part);
  }
  if (crc != record.crc32) {
    fail_at(record.data_offset, ErrorCode::kCorrupt,
            "record '{}': its CRC-32 is {:08x}, the directory says {:08x}: the data is damaged", printable(record.name),
            crc, record.crc32);
  }
  return {file_, record.data_offset, record.data_offset + record.size};
}

}  // namespace wconv::pytorch
