#include "scan/zip_records.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "formats/pytorch/zip_directory.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

using pytorch::kEndMark, pytorch::kEnd64Mark, pytorch::kEntryMark, pytorch::kLocalHeaderMark, pytorch::kLocator64Mark;

constexpr std::uint64_t kEndBytes = 22, kMaxComment = 65535, kLocalBytes = 30, kEntryBytes = 46;

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

// Of the last end record of the region, wherever its comment ends.
std::optional<std::uint64_t> find_end_record(const Region& region) {
  std::string tail(std::min(region.size(), kEndBytes + kMaxComment), '\0');
  region.file->read(region.end - tail.size(), std::as_writable_bytes(std::span(tail)));
  for (std::size_t i = tail.size() >= kEndBytes ? tail.size() - kEndBytes + 1 : 0; i-- > 0;) {
    if (u32_at(tail, i) == kEndMark) return region.end - tail.size() + i;
  }
  return std::nullopt;
}

// What a local header or a directory entry says.
struct Header {
  ZipView view;
  std::uint64_t size = 0, begin = 0;  // begin: of the local header
};

// Values that did not fit stand in the zip64 field, in this order.
void widen(std::span<const std::byte> extra, std::initializer_list<std::uint64_t*> values) {
  ByteReader fields(extra);
  while (fields.remaining() >= 4) {
    const std::uint16_t id = fields.u16("id"), size = fields.u16("size");
    ByteReader field(fields.take(std::min<std::uint64_t>(size, fields.remaining()), "field"));
    if (id != pytorch::kZip64Field) continue;
    for (std::uint64_t* value : values) {
      if (*value == pytorch::kSaturated && field.remaining() >= 8) *value = field.u64("value");
    }
  }
}

// The local header at `at`, or nothing where there is none. A size of 0 may mean that it stands behind the data.
std::optional<Header> local_header(const Region& region, std::uint64_t at) {
  if (at < region.begin || at > region.end || region.end - at < kLocalBytes) return std::nullopt;
  ByteReader reader(region.file, at, region.end);
  if (reader.u32("mark") != kLocalHeaderMark) return std::nullopt;
  Header header;
  header.begin = at;
  reader.skip(2, "version");
  header.view.flags = reader.u16("flags");
  header.view.method = reader.u16("method");
  reader.skip(8, "time, CRC-32");
  header.view.stored_bytes = reader.u32("stored size");
  header.size = reader.u32("size");
  const std::uint16_t name_size = reader.u16("name length"), extra_size = reader.u16("extra length");
  if (reader.remaining() < std::uint64_t{name_size} + extra_size) return std::nullopt;
  header.view.name = reader.take_text(name_size, "name");
  const auto extra = reader.take(extra_size, "extra");
  widen(extra, {&header.size, &header.view.stored_bytes});
  header.view.data = reader.offset();
  return header;
}

// The directory's entries as far as they can be read. `begin` of each is the position of its local header.
std::vector<Header> directory_entries(const Region& region, std::uint64_t& directory_begin) {
  std::vector<Header> entries;
  const auto end = find_end_record(region);
  directory_begin = end.value_or(region.end);
  if (!end) return entries;
  ByteReader record(region.file, *end + 12, region.end);
  std::uint64_t size = record.u32("directory size"), offset = record.u32("directory offset"), stop = *end;
  if (*end - region.begin >= 20 + 56) {
    ByteReader locator(region.file, *end - 20, *end);
    if (locator.u32("mark") == kLocator64Mark) {
      stop = *end - 20 - 56;  // where writers put it; the offset of the locator does not count what stands before
      ByteReader wide(region.file, stop, *end);
      if (wide.u32("mark") == kEnd64Mark) {
        wide.skip(36, "zip64 end record");
        size = wide.u64("directory size");
        offset = wide.u64("directory offset");
      } else {
        stop = *end;
      }
    }
  }
  if (size > stop - region.begin) return entries;
  directory_begin = stop - size;
  // Bytes before the archive shift all of its offsets.
  const std::uint64_t shift = directory_begin - region.begin >= offset ? directory_begin - region.begin - offset : 0;
  ByteReader reader(region.file, directory_begin, stop);
  while (reader.remaining() >= kEntryBytes) {
    if (reader.u32("mark") != kEntryMark) break;
    Header entry;
    reader.skip(4, "versions");
    entry.view.flags = reader.u16("flags");
    entry.view.method = reader.u16("method");
    reader.skip(8, "time, CRC-32");
    entry.view.stored_bytes = reader.u32("stored size");
    entry.size = reader.u32("size");
    const std::uint16_t name_size = reader.u16("name length"), extra_size = reader.u16("extra length"),
                        comment_size = reader.u16("comment length");
    reader.skip(8, "attributes");
    entry.begin = reader.u32("offset");
    if (reader.remaining() < std::uint64_t{name_size} + extra_size + comment_size) break;
    entry.view.name = reader.take_text(name_size, "name");
    widen(reader.take(extra_size, "extra"), {&entry.size, &entry.view.stored_bytes, &entry.begin});
    reader.skip(comment_size, "comment");
    if (!checked_add(entry.begin, region.begin + shift, entry.begin)) continue;
    entries.push_back(std::move(entry));
  }
  return entries;
}

class Views {
 public:
  explicit Views(const Region& region) : region_(region) {}

  ZipViews make() {
    std::uint64_t directory = region_.end;
    for (const Header& entry : directory_entries(region_, directory)) add_entry(entry);
    find_hidden(directory);
    return std::move(out_);
  }

 private:
  using Range = std::pair<std::uint64_t, std::uint64_t>;

  void add(ZipView view) {
    view.stored_bytes = std::min(view.stored_bytes, region_.end - view.data);
    if (!view.two_faced) covered_.emplace_back(view.data, view.data + view.stored_bytes);  // else another may lie in it
    out_.views.push_back(std::move(view));
  }

  void add_entry(const Header& entry) {
    const auto local = local_header(region_, entry.begin);
    ZipView view = entry.view;
    view.data = local ? local->view.data : std::min(entry.begin, region_.end);
    if (local) covered_.emplace_back(entry.begin, local->view.data);
    const bool sized = local && (local->view.stored_bytes != 0 || !(local->view.flags & pytorch::kHasDescriptor));
    view.two_faced = !local || local->view.name != view.name || local->view.method != view.method ||
                     local->view.flags != view.flags || (sized && local->view.stored_bytes != view.stored_bytes);
    if (view.two_faced && local) {
      ZipView other = local->view;
      other.two_faced = true;
      if (!sized) other.stored_bytes = view.stored_bytes;
      add(std::move(other));
    }
    add(std::move(view));
  }

  // Local headers between the records, up to the directory.
  void find_hidden(std::uint64_t directory) {
    std::sort(covered_.begin(), covered_.end());
    std::vector<Range> gaps;
    std::uint64_t at = region_.begin;
    for (const auto& [begin, end] : covered_) {
      if (begin > at) gaps.emplace_back(at, begin);
      at = std::max(at, end);
    }
    if (directory > at) gaps.emplace_back(at, directory);
    for (const Range& gap : gaps) search(gap);
  }

  void search(Range gap) {
    std::uint64_t free = gap.first;
    while (const auto found = next_header(free, gap.second)) {
      if (found->begin > free) out_.gaps.emplace_back(free, found->begin);
      ZipView view = found->view;
      view.hidden = true;
      view.data = std::min(view.data, gap.second);
      const bool sized = view.stored_bytes != 0 || !(view.flags & pytorch::kHasDescriptor);
      if (!sized || view.stored_bytes > gap.second - view.data) {
        const auto next = next_header(view.data, gap.second);
        view.stored_bytes = (next ? next->begin : gap.second) - view.data;
      }
      free = view.data + view.stored_bytes;
      out_.views.push_back(std::move(view));
    }
    if (free < gap.second) out_.gaps.emplace_back(free, gap.second);
  }

  // The next local header that could be one: weights hold its mark by chance.
  std::optional<Header> next_header(std::uint64_t from, std::uint64_t to) {
    constexpr std::uint64_t kFirstChunk = 4096, kMaxChunk = 1024 * 1024;  // mostly it is near
    constexpr std::string_view kMark = "PK\x03\x04";
    std::string chunk;
    for (std::uint64_t size = kFirstChunk; to - from >= kLocalBytes; size = std::min(4 * size, kMaxChunk)) {
      chunk.resize(std::min(size, to - from));
      region_.file->read(from, std::as_writable_bytes(std::span(chunk)));
      for (std::size_t i = chunk.find(kMark); i != std::string::npos; i = chunk.find(kMark, i + 1)) {
        auto header = local_header(region_, from + i);
        if (header && (header->view.method == 0 || header->view.method == 8) && !header->view.name.empty() &&
            is_utf8(header->view.name))
          return header;
      }
      if (chunk.size() < kMark.size()) break;
      from += chunk.size() - (kMark.size() - 1);  // a mark may lie across two chunks
      if (chunk.size() < size) break;
    }
    return std::nullopt;
  }

  const Region& region_;
  std::vector<Range> covered_;
  ZipViews out_;
};

}  // namespace

bool has_end_record(const Region& region) {
  if (region.size() < kEndBytes) return false;
  const auto end = find_end_record(region);
  if (!end) return false;
  ByteReader reader(region.file, *end + 20, region.end);  // chance marks in weights have no fitting comment
  return reader.u16("comment length") == reader.remaining();
}

ZipViews zip_views(const Region& region) { return Views(region).make(); }

}  // namespace wconv::scan
