#include "formats/pytorch/zip_directory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::uint64_t kEndBytes = 22, kMaxComment = 65535, kLocatorBytes = 20, kEntryBytes = 46;
constexpr std::uint16_t kKnownFlags = 1u << 1 | 1u << 2 | kHasDescriptor | 1u << 11;  // deflate's levels; UTF-8 names

// Where the directory lies, as the end record says.
struct End {
  std::uint64_t at = 0;  // of the first of the end records
  std::uint64_t entries = 0, size = 0, offset = 0;
};

std::uint64_t find_end_record(const File& file) {
  const std::uint64_t window = std::min(file.size(), kEndBytes + kMaxComment);
  std::vector<std::byte> tail(window);
  file.read(file.size() - window, tail);
  constexpr std::array<std::byte, 4> kMark = {std::byte{'P'}, std::byte{'K'}, std::byte{5}, std::byte{6}};
  for (std::uint64_t i = window >= kEndBytes ? window - kEndBytes + 1 : 0; i-- > 0;) {
    if (std::memcmp(&tail[i], kMark.data(), kMark.size()) != 0) continue;
    const std::uint64_t comment =
        std::to_integer<std::uint64_t>(tail[i + 20]) | std::to_integer<std::uint64_t>(tail[i + 21]) << 8;
    if (i + kEndBytes + comment == window) return file.size() - window + i;
  }
  std::array<std::byte, 2> first{};
  if (file.size() >= first.size()) file.read(0, first);
  if (file.size() != 0 && first != std::array{kMark[0], kMark[1]}) {
    fail_at(0, ErrorCode::kUnsupported,
            "no zip, tar or pickle begins here, and there is no zip directory at the end of the {} bytes: this is no "
            "PyTorch checkpoint",
            file.size());
  }
  fail(ErrorCode::kCorrupt, "zip directory missing, file is {} bytes; the download or the save was cut short",
       file.size());
}

// The zip64 end record, which counts where it is there.
void read_end64(const std::shared_ptr<const File>& file, End& end) {
  if (end.at < kLocatorBytes) return;
  ByteReader locator(file, end.at - kLocatorBytes, end.at);
  if (locator.u32("zip64 locator") != kLocator64Mark) return;
  locator.skip(4, "zip64 locator");
  const std::uint64_t at = locator.u64("zip64 locator: offset");
  if (at >= end.at - kLocatorBytes) {
    fail_at(end.at - kLocatorBytes, ErrorCode::kCorrupt, "the zip64 locator points to byte {}, which is not before it",
            at);
  }
  ByteReader record(file, at, end.at - kLocatorBytes);
  if (record.u32("zip64 end record") != kEnd64Mark)
    fail_at(at, ErrorCode::kCorrupt, "no zip64 end record where the locator says");
  record.skip(8 + 2 + 2, "zip64 end record");
  const std::uint32_t disk = record.u32("zip64 disk"), first_disk = record.u32("zip64 disk");
  const std::uint64_t here = record.u64("zip64 entries");
  const End wide{at, record.u64("zip64 entries"), record.u64("zip64 directory size"),
                 record.u64("zip64 directory offset")};
  if (disk != 0 || first_disk != 0 || here != wide.entries) {
    fail_at(at, ErrorCode::kUnsupported, "the zip archive is split over several files; join them first");
  }
  const auto agrees = [](std::uint64_t narrow, std::uint64_t limit, std::uint64_t value) {
    return narrow == limit || narrow == value;
  };
  if (!agrees(end.entries, 0xffff, wide.entries) || !agrees(end.size, kSaturated, wide.size) ||
      !agrees(end.offset, kSaturated, wide.offset)) {
    fail_at(end.at, ErrorCode::kCorrupt, "the two end records of the zip archive disagree");
  }
  end = wide;
}

End read_end(const std::shared_ptr<const File>& file) {
  End end;
  end.at = find_end_record(*file);
  ByteReader reader(file, end.at, file->size());
  reader.skip(4, "zip end record");
  const std::uint16_t disk = reader.u16("zip disk"), first_disk = reader.u16("zip disk"),
                      here = reader.u16("zip entries");
  end.entries = reader.u16("zip entries");
  end.size = reader.u32("zip directory size");
  end.offset = reader.u32("zip directory offset");
  const std::uint64_t narrow_at = end.at;
  read_end64(file, end);
  if (end.at == narrow_at && (disk != 0 || first_disk != 0 || here != end.entries)) {
    fail_at(end.at, ErrorCode::kUnsupported, "the zip archive is split over several files; join them first");
  }
  if (end.offset > end.at || end.size > end.at - end.offset) {
    fail_at(end.at, ErrorCode::kCorrupt,
            "the zip directory would be {} bytes from byte {} on; it must lie before byte {}", end.size, end.offset,
            end.at);
  }
  return end;
}

DirectoryEntry read_entry(ByteReader& reader) {
  DirectoryEntry entry;
  const std::uint64_t at = entry.entry_offset = reader.offset();
  if (const std::uint32_t mark = reader.u32("zip directory entry"); mark != kEntryMark) {
    fail_at(at, ErrorCode::kCorrupt, "a zip directory entry begins with 0x{:08x}; 0x{:08x} is right", mark, kEntryMark);
  }
  reader.skip(4, "zip versions");
  const std::uint16_t flags = reader.u16("zip flags");
  entry.method = reader.u16("zip method");
  reader.skip(4, "zip time");
  entry.record.crc32 = reader.u32("zip CRC-32");
  entry.record.compressed_size = reader.u32("zip compressed size");
  entry.record.size = reader.u32("zip size");
  const std::uint16_t name_size = reader.u16("zip name length"), extra_size = reader.u16("zip extra length"),
                      comment_size = reader.u16("zip comment length");
  reader.skip(8, "zip attributes");
  entry.header_offset = reader.u32("zip local header offset");
  entry.record.name = reader.take_text(name_size, "zip record name");
  const auto extra = reader.take(extra_size, "zip extra fields");
  std::uint64_t* const wide[] = {&entry.record.size, &entry.record.compressed_size, &entry.header_offset};
  read_zip64(extra, wide, entry.record.name, at);
  reader.skip(comment_size, "zip record comment");
  check_flags(flags, entry.record.name, at);
  return entry;
}

void check_sizes(const DirectoryEntry& entry) {
  const ZipRecord& record = entry.record;
  if (entry.method != 0 && entry.method != 8) {
    fail_at(entry.entry_offset, ErrorCode::kUnsupported,
            "record '{}' is compressed by method {}; stored (0) and deflated (8) are read", printable(record.name),
            entry.method);
  }
  constexpr std::uint64_t kDeflateLimit = 1032;  // deflate's best ratio
  const bool impossible = record.deflated
                              ? record.size > 64 && (record.size - 64) / kDeflateLimit > record.compressed_size
                              : record.size != record.compressed_size;
  if (impossible) {
    fail_at(entry.entry_offset, ErrorCode::kCorrupt,
            "record '{}' claims {} bytes from {} stored ones, which is impossible", printable(record.name), record.size,
            record.compressed_size);
  }
}

}  // namespace

void check_flags(std::uint16_t flags, std::string_view record, std::uint64_t at) {
  if (flags & 1u) fail_at(at, ErrorCode::kUnsupported, "record '{}' is encrypted", printable(record));
  if (flags & ~kKnownFlags) {
    fail_at(at, ErrorCode::kCorrupt, "record '{}' has zip flags 0x{:04x}; only 0x{:04x} are allowed", printable(record),
            flags, kKnownFlags);
  }
}

void read_zip64(std::span<const std::byte> extra, std::span<std::uint64_t* const> values, std::string_view record,
                std::uint64_t at) {
  if (std::none_of(values.begin(), values.end(), [](const auto* value) { return *value == kSaturated; })) return;
  ByteReader fields(extra);
  while (fields.remaining() >= 4) {
    const std::uint16_t id = fields.u16("zip extra field"), size = fields.u16("zip extra field");
    const auto bytes = fields.take(std::min<std::uint64_t>(size, fields.remaining()), "zip extra field");
    if (id != kZip64Field) continue;
    ByteReader field(bytes);
    for (std::uint64_t* value : values) {
      if (*value == kSaturated && field.remaining() >= 8) *value = field.u64("zip64 field");
    }
    return;
  }
  fail_at(at, ErrorCode::kCorrupt, "record '{}' needs a zip64 field, which is missing", printable(record));
}

Directory read_directory(const std::shared_ptr<const File>& file) {
  const End end = read_end(file);
  Directory directory;
  directory.offset = end.offset;
  ByteReader reader(file, end.offset, end.offset + end.size);
  while (!reader.at_end()) {
    if (reader.remaining() < kEntryBytes)
      fail_at(reader.offset(), ErrorCode::kCorrupt, "the zip directory ends within an entry");
    directory.entries.push_back(read_entry(reader));
    DirectoryEntry& entry = directory.entries.back();
    entry.record.deflated = entry.method == 8;
    check_sizes(entry);
  }
  if (directory.entries.size() != end.entries) {
    fail_at(end.at, ErrorCode::kCorrupt, "the zip directory has {} entries, its end record says {}",
            directory.entries.size(), end.entries);
  }
  return directory;
}

}  // namespace wconv::pytorch
