// Zip archives: records whose lengths and CRC-32 are right again after a change inside; pickles in them are trees too.
#include <zlib.h>

#include <algorithm>
#include <optional>

#include "core/hash.h"
#include "structure.h"

namespace wconv::fuzz {
namespace {

// A record is a group of these, in this order.
enum : int { kRecord, kName, kLocalName, kMethod, kFlags, kCrcError, kOffsetError, kContent, kPickleContent };

constexpr std::uint64_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint64_t kDeflated = 8, kMaxUnpacked = 1024 * 1024;
constexpr std::size_t kEndBytes = 22;

std::string deflated(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

bool inflate_record(std::string& content, std::uint64_t unpacked) {
  if (unpacked > kMaxUnpacked) return false;
  std::string out(unpacked + 1, '\0');
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool ended = inflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  inflateEnd(&stream);
  content = std::move(out);
  return ended;
}

// The directory of the archive and the number of its records.
std::optional<Cursor> find_directory(std::string_view bytes, std::uint64_t& count) {
  const std::size_t at = bytes.rfind("PK\5\6");
  if (at == std::string_view::npos || bytes.size() - at < kEndBytes) return std::nullopt;
  Cursor cursor(bytes.substr(at + 10));
  count = cursor.number(2);
  cursor.take(4);
  const std::uint64_t begin = cursor.number(4);
  if (begin > bytes.size()) return std::nullopt;
  return Cursor(bytes.substr(begin));
}

bool parse_record(std::string_view bytes, Cursor& directory, Node& record) {
  if (directory.number(4) != kDirectoryHeader) return false;
  directory.take(4);
  const std::uint64_t flags = directory.number(2), method = directory.number(2);
  directory.take(8);
  const std::uint64_t stored = directory.number(4), unpacked = directory.number(4);
  const std::uint64_t name_bytes = directory.number(2), extra_bytes = directory.number(2);
  const std::uint64_t comment_bytes = directory.number(2);
  directory.take(8);
  const std::uint64_t at = directory.number(4);
  const std::string_view name = directory.take(name_bytes);
  directory.take(extra_bytes + comment_bytes);
  if (!directory.ok() || at > bytes.size()) return false;
  Cursor local(bytes.substr(at));
  local.take(26);
  const std::uint64_t local_name_bytes = local.number(2), local_extra_bytes = local.number(2);
  const std::string_view local_name = local.take(local_name_bytes);
  local.take(local_extra_bytes);
  std::string content(local.take(stored));
  if (!local.ok() || (method == kDeflated && !inflate_record(content, unpacked))) return false;
  record.parts = {text_node(kName, name),       text_node(kLocalName, name == local_name ? "" : local_name),
                  number_node(kMethod, method), number_node(kFlags, flags),
                  number_node(kCrcError, 0),    number_node(kOffsetError, 0),
                  text_node(kContent, content)};
  Node pickle;
  if (name.ends_with(".pkl") && pickle_grammar().parse(content, pickle)) {
    pickle.label = kPickleContent;
    record.parts.back() = std::move(pickle);
  }
  return true;
}

bool parse(std::string_view bytes, Node& root) {
  root = group_node(0);
  std::uint64_t count = 0;
  std::optional<Cursor> directory = bytes.starts_with("PK") ? find_directory(bytes, count) : std::nullopt;
  if (!directory) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!parse_record(bytes, *directory, root.parts.emplace_back(group_node(kRecord)))) return false;
  }
  return true;
}

struct Archive {
  std::string body, directory;
  std::uint64_t count = 0;
};

void add_record(const Node& record, Archive& archive) {
  std::string name, local_name, content;
  std::uint64_t numbers[kOffsetError + 1] = {};
  for (const Node& part : record.parts) {
    if (part.kind == NodeKind::kNumber) numbers[part.label] = part.number;
    if (part.label == kName) name = part.text;
    if (part.label == kLocalName) local_name = part.text;
    if (part.label == kContent) content = part.text;
    if (part.label == kPickleContent) content = pickle_grammar().write(part);
  }
  if (local_name.empty()) local_name = name;
  name.resize(std::min<std::size_t>(name.size(), 0xffff));
  local_name.resize(std::min<std::size_t>(local_name.size(), 0xffff));
  const std::uint64_t crc = crc32(0, std::as_bytes(std::span(content))) + numbers[kCrcError];
  const std::uint64_t size = content.size() + record.lie;
  const std::string stored = numbers[kMethod] == kDeflated ? deflated(content) : content;
  const std::uint64_t stored_size = stored.size() + record.lie;
  const std::uint64_t at = archive.body.size() + numbers[kOffsetError];
  const std::string common = little_endian(numbers[kFlags], 2) + little_endian(numbers[kMethod], 2) +
                             little_endian(0, 4) + little_endian(crc, 4) + little_endian(stored_size, 4) +
                             little_endian(size, 4);
  archive.body += little_endian(kLocalHeader, 4) + little_endian(20, 2) + common + little_endian(local_name.size(), 2) +
                  little_endian(0, 2) + local_name + stored;
  archive.directory += little_endian(kDirectoryHeader, 4) + little_endian(20, 2) + little_endian(20, 2) + common +
                       little_endian(name.size(), 2) + little_endian(0, 12) + little_endian(at, 4) + name;
  ++archive.count;
}

std::string write(const Node& root) {
  Archive archive;
  for (const Node& part : root.parts) {
    if (part.label == kRecord && part.kind == NodeKind::kGroup) add_record(part, archive);
  }
  return archive.body + archive.directory + little_endian(kEnd, 4) + little_endian(0, 4) +
         little_endian(archive.count, 2) + little_endian(archive.count, 2) +
         little_endian(archive.directory.size(), 4) + little_endian(archive.body.size(), 4) + little_endian(0, 2);
}

}  // namespace

const Grammar& zip_grammar() {
  static const Grammar grammar{parse, write, pickle_grammar().words};
  return grammar;
}

}  // namespace wconv::fuzz
