#include "core/zstd_frames.h"

#include <algorithm>
#include <array>

#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv {
namespace {

constexpr std::uint32_t kFrameMagic = 0xFD2FB528, kSkippableMagic = 0x184D2A50, kSkippableMask = 0xFFFFFFF0;
constexpr std::uint64_t kMaxHeader = 18, kSkippableHeader = 8, kBlockHeader = 3, kChecksum = 4, kFooter = 9;
constexpr std::uint64_t kMaxBlock = 128 * 1024;

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return number;
}

// The file through a small window: headers lie far apart.
class Headers {
 public:
  explicit Headers(const File& file) : file_(file) {}
  std::uint64_t left(std::uint64_t offset) const { return file_.size() - offset; }
  // Up to `size` bytes, fewer at the end.
  std::span<const std::byte> peek(std::uint64_t offset, std::uint64_t size) {
    size = std::min(size, left(offset));
    if (offset < begin_ || offset + size > begin_ + used_) {
      begin_ = offset;
      used_ = std::min<std::uint64_t>(window_.size(), left(offset));
      file_.read(begin_, std::span(window_).first(used_));
    }
    return std::span<const std::byte>(window_).subspan(offset - begin_, size);
  }
  // `size` bytes; throws where the file ends before.
  std::span<const std::byte> take(std::uint64_t offset, std::uint64_t size, std::string_view what) {
    require(offset, size, what);
    return peek(offset, size);
  }
  void require(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    if (size > left(offset))
      fail_at(offset, ErrorCode::kCorrupt,
              "the zstd file is cut off: {} needs {} bytes, {} are left; an unfinished download?", what, size,
              left(offset));
  }

 private:
  const File& file_;
  std::array<std::byte, 1024> window_{};
  std::uint64_t begin_ = 0, used_ = 0;
};

// Bytes of the frame at `offset` whose header has been read.
std::uint64_t measure_frame(Headers& headers, std::uint64_t offset, const ZstdFrameHeader& header) {
  if (header.skippable) {
    headers.require(offset + header.size, header.skip, "a skippable frame");
    return header.size + header.skip;
  }
  std::uint64_t at = offset + header.size;
  for (bool last = false; !last;) {
    const std::uint64_t block = little_endian(headers.take(at, kBlockHeader, "a block header"));
    const std::uint64_t type = block >> 1 & 3, size = block >> 3;
    last = (block & 1) != 0;
    if (type == 3 || size > std::min(kMaxBlock, std::max<std::uint64_t>(header.window, 1024)))
      fail_at(at, ErrorCode::kCorrupt, "the zstd data is damaged: a block of type {} and {} bytes", type, size);
    const std::uint64_t stored = type == 1 ? 1 : size;  // one byte that is repeated
    headers.require(at + kBlockHeader, stored, "a block");
    at += kBlockHeader + stored;
  }
  if (header.checksum) {
    headers.require(at, kChecksum, "a checksum");
    at += kChecksum;
  }
  return at - offset;
}

void add_frame(ZstdIndex& index, ZstdFrame frame) {
  frame.begin = index.size;
  if (!checked_add(index.size, frame.size, index.size) || index.size > std::uint64_t{1} << 62)
    fail_at(frame.stored_begin, ErrorCode::kCorrupt, "the zstd frames claim to unpack to more than any file holds");
  if (frame.size == 0) return;
  index.max_frame = std::max({index.max_frame, frame.size, frame.stored_size});
  index.frames.push_back(frame);
}

ZstdIndex walk(const File& file) {
  ZstdIndex index;
  Headers headers(file);
  for (std::uint64_t at = 0; at < file.size();) {
    const ZstdFrameHeader header = read_zstd_frame_header(headers.peek(at, kMaxHeader), at);
    const std::uint64_t stored = measure_frame(headers, at, header);
    index.max_window = std::max(index.max_window, header.window);
    if (!header.skippable) {
      index.complete = index.complete && header.content_size.has_value();
      if (index.complete) add_frame(index, {at, stored, 0, *header.content_size, std::nullopt});
    }
    at += stored;
  }
  return index;
}

struct Table {
  std::uint64_t offset = 0;  // of its frame
  std::uint64_t count = 0, entry_size = 0;
};

// Nothing where the file does not end in the table's magic number.
std::optional<Table> find_table(Headers& headers, std::uint64_t file_size) {
  if (file_size < kSkippableHeader + kFooter) return std::nullopt;
  const auto footer = headers.peek(file_size - kFooter, kFooter);
  if (little_endian(footer.subspan(5)) != kZstdTableMagic) return std::nullopt;
  const std::uint64_t descriptor = little_endian(footer.subspan(4, 1));
  Table table;
  table.count = little_endian(footer.first(4));
  table.entry_size = descriptor & 0x80 ? 12 : 8;
  const std::uint64_t payload = table.count * table.entry_size + kFooter;
  if (payload > 0xFFFFFFFF || kSkippableHeader + payload > file_size)
    fail_at(file_size - kFooter, ErrorCode::kCorrupt,
            "the seek table claims {} frames, more than the file has room for", table.count);
  table.offset = file_size - kSkippableHeader - payload;
  const auto head = headers.peek(table.offset, kSkippableHeader);
  if (little_endian(head.first(4)) != kZstdTableFrameMagic || little_endian(head.subspan(4)) != payload)
    fail_at(table.offset, ErrorCode::kCorrupt, "the seek table of {} frames does not begin here", table.count);
  if (descriptor & 0x7C)
    fail_at(file_size - kFooter + 4, ErrorCode::kUnsupported, "the seek table sets bits that are reserved ({:#04x})",
            descriptor);
  return table;
}

// A frame that the table gives no content has none.
void require_empty(Headers& headers, std::uint64_t at, std::uint64_t stored) {
  const ZstdFrameHeader header = read_zstd_frame_header(headers.peek(at, kMaxHeader), at);
  const bool empty = header.skippable || header.content_size == std::uint64_t{0};
  if (!empty || measure_frame(headers, at, header) != stored)
    fail_at(at, ErrorCode::kCorrupt,
            "the seek table says that there are {} bytes without content here, the file does not", stored);
}

ZstdIndex read_table(const File& file, Headers& frames, const Table& table) {
  ZstdIndex index;
  Headers headers(file);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < table.count; ++i) {
    const std::uint64_t position = table.offset + kSkippableHeader + i * table.entry_size;
    const auto entry = headers.take(position, table.entry_size, "a seek table entry");
    ZstdFrame frame{at, little_endian(entry.first(4)), 0, little_endian(entry.subspan(4, 4)), std::nullopt};
    if (table.entry_size == 12) frame.checksum = static_cast<std::uint32_t>(little_endian(entry.subspan(8)));
    if (frame.stored_size == 0 || frame.stored_size > table.offset - at)
      fail_at(position, ErrorCode::kCorrupt, "frame {} of the seek table has {} bytes, {} are left", i,
              frame.stored_size, table.offset - at);
    if (frame.size == 0) require_empty(frames, at, frame.stored_size);
    if (i == 0) index.max_window = read_zstd_frame_header(frames.peek(at, kMaxHeader), at).window;
    add_frame(index, frame);
    at += frame.stored_size;
  }
  if (at != table.offset)
    fail_at(at, ErrorCode::kCorrupt, "the frames of the seek table end here, the table begins at byte {}",
            table.offset);
  return index;
}

}  // namespace

bool starts_zstd(std::span<const std::byte> head) {
  if (head.size() < 4) return false;
  const auto magic = static_cast<std::uint32_t>(little_endian(head.first(4)));
  return magic == kFrameMagic || (magic & kSkippableMask) == kSkippableMagic;
}

ZstdFrameHeader read_zstd_frame_header(std::span<const std::byte> bytes, std::uint64_t offset) {
  const auto take = [&](std::uint64_t begin, std::uint64_t size) {
    if (begin + size > bytes.size())
      fail_at(offset, ErrorCode::kCorrupt, "the zstd file is cut off in a frame's header; an unfinished download?");
    return little_endian(bytes.subspan(begin, size));
  };
  if (!starts_zstd(bytes))
    fail_at(offset, ErrorCode::kCorrupt, "these bytes are no zstd frame: the file is damaged, or something follows it");
  ZstdFrameHeader header;
  if (take(0, 4) != kFrameMagic) {
    header.skippable = true;
    header.size = kSkippableHeader;
    header.skip = take(4, 4);
    return header;
  }
  static constexpr std::array<std::uint64_t, 4> kSizes = {0, 2, 4, 8}, kDictionarySizes = {0, 1, 2, 4};
  const std::uint64_t descriptor = take(4, 1);
  const bool single = descriptor >> 5 & 1;
  const std::uint64_t size_flag = descriptor >> 6, size_bytes = size_flag == 0 && single ? 1 : kSizes[size_flag];
  const std::uint64_t dictionary_bytes = kDictionarySizes[descriptor & 3];
  if (descriptor & 8) fail_at(offset + 4, ErrorCode::kUnsupported, "the zstd frame sets a bit that is reserved");
  header.checksum = descriptor >> 2 & 1;
  header.size = 5;
  if (!single) {
    const std::uint64_t window = take(header.size++, 1);
    header.window = std::uint64_t{1} << (10 + (window >> 3));
    header.window += header.window / 8 * (window & 7);
  }
  if (dictionary_bytes > 0 && take(header.size, dictionary_bytes) != 0)
    fail_at(offset, ErrorCode::kUnsupported, "the zstd frame needs a dictionary; unpack it with 'zstd -d -D'");
  header.size += dictionary_bytes;
  if (size_bytes > 0) header.content_size = take(header.size, size_bytes) + (size_bytes == 2 ? 256 : 0);
  header.size += size_bytes;
  if (single) header.window = *header.content_size;
  if (header.window > kZstdMaxWindow)
    fail_at(offset, ErrorCode::kUnsupported,
            "the zstd frame needs a window of {} bytes, at most {} are allowed; unpack it with 'zstd -d --long=31'",
            header.window, kZstdMaxWindow);
  return header;
}

ZstdIndex index_zstd(const File& file) {
  Headers headers(file);
  if (const auto table = find_table(headers, file.size())) return read_table(file, headers, *table);
  return walk(file);
}

}  // namespace wconv
