// The central directory of a zip archive, as it stands in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/pytorch/zip_archive.h"
#include "wconv/file.h"

namespace wconv::pytorch {

// A record with what its local header must agree with.
struct DirectoryEntry {
  ZipRecord record;                 // data_offset is not yet known
  std::uint64_t header_offset = 0;  // of the local header in the file
  std::uint64_t entry_offset = 0;   // of this entry in the file, for messages
  std::uint16_t method = 0;
};

struct Directory {
  std::vector<DirectoryEntry> entries;
  std::uint64_t offset = 0;  // of the first entry: records lie before it
};

// Throws Error(kCorrupt | kUnsupported) with the byte offset.
Directory read_directory(const std::shared_ptr<const File>& file);

// Refuses flags that change what the bytes mean: encryption, patched data, masked headers.
void check_flags(std::uint16_t flags, std::string_view record, std::uint64_t at);

// Bit 3: the local header has no sizes, a descriptor behind the data has them.
inline constexpr std::uint16_t kHasDescriptor = 1u << 3;
inline constexpr std::uint32_t kLocalHeaderMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50,
                               kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50, kDescriptorMark = 0x08074b50;
inline constexpr std::uint16_t kZip64Field = 0x0001;
inline constexpr std::uint32_t kSaturated = 0xffffffff;  // the value stands in the zip64 field

// Reads the values of a zip64 extra field for those of `values` that are saturated, in their order.
void read_zip64(std::span<const std::byte> extra, std::span<std::uint64_t* const> values, std::string_view record,
                std::uint64_t at);

}  // namespace wconv::pytorch
