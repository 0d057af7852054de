#include "formats/gguf/header.h"

#include <algorithm>

#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {

std::uint64_t Cursor::length(std::string_view field, std::uint64_t most) {
  const std::uint64_t begin = bytes.offset(), size = count(field);
  if (size > bytes.remaining())
    fail_at(begin, ErrorCode::kCorrupt, "{} says it has {} bytes, {} are left in the file; cut short?", field, size,
            bytes.remaining());
  if (size > most) fail_at(begin, ErrorCode::kUnsupported, "{} has {} bytes; at most {} are read", field, size, most);
  return size;
}

std::string Cursor::text(std::uint64_t size, std::string_view field) {
  constexpr std::uint64_t kStep = 32 * 1024;  // less than the reader's window, so that it does not grow
  std::string text;
  text.reserve(size);
  for (; size != 0; size -= std::min(size, kStep)) text += bytes.take_text(std::min(size, kStep), field);
  return text;
}

void Cursor::require(std::uint64_t n, std::uint64_t entry_bytes, std::string_view field, std::uint64_t at) {
  if (n > bytes.remaining() / entry_bytes)
    fail_at(at, ErrorCode::kCorrupt, "{} is {}, at least {} bytes each, but {} bytes are left in the file; cut short?",
            field, n, entry_bytes, bytes.remaining());
}

Preamble read_preamble(Cursor& cursor) {
  if (cursor.bytes.take_text(kMagic.size(), "magic") != kMagic)
    fail_at(0, ErrorCode::kCorrupt, "not a GGUF file: it does not begin with '{}'", kMagic);
  Preamble preamble;
  std::uint32_t version = cursor.bytes.u32("version");
  const std::uint32_t swapped = __builtin_bswap32(version);
  if (version > kVersion && swapped <= kVersion) {
    preamble.big_endian = true;
    version = swapped;
    cursor.bytes.set_endian(ByteReader::Endian::kBig);
  }
  if (version < 1 || version > kVersion)
    fail_at(4, ErrorCode::kUnsupported, "GGUF version {}; versions 1 to {} are known", version, kVersion);
  cursor.version = version;
  preamble.tensors_at = cursor.bytes.offset();
  preamble.tensors = cursor.count("tensor count");
  preamble.keys_at = cursor.bytes.offset();
  preamble.keys = cursor.count("metadata count");
  return preamble;
}

std::uint64_t Header::position_of(std::string_view key) const {
  const auto entry = std::find_if(metadata.begin(), metadata.end(), [&](const auto& e) { return e.first == key; });
  return key_positions[static_cast<std::size_t>(entry - metadata.begin())];
}

namespace {

std::uint64_t alignment_of(const Header& header) {
  try {
    return stated_alignment(header.metadata);
  } catch (Error& error) {
    error.at(header.position_of(kAlignmentKey));
    throw;
  }
}

Header read_header_of(const std::shared_ptr<const File>& file) {
  Cursor cursor{ByteReader(file)};
  const Preamble preamble = read_preamble(cursor);
  FindingList findings;
  Header header;
  header.file = file;
  header.version = cursor.version;
  header.big_endian = preamble.big_endian;
  // Each count is checked before anything is kept: key length, type and one byte of value; name length, dimensions,
  // type and offset.
  cursor.require(preamble.keys, cursor.count_bytes() + 5, "metadata count", preamble.keys_at);
  cursor.require(preamble.tensors, cursor.count_bytes() + 16, "tensor count", preamble.tensors_at);
  if (preamble.tensors > kMaxTensors)
    fail_at(preamble.tensors_at, ErrorCode::kUnsupported, "tensor count is {}; at most {} are read", preamble.tensors,
            kMaxTensors);
  header.metadata = read_metadata(cursor, preamble.keys, findings, header.key_positions);
  const std::uint64_t alignment = alignment_of(header);
  cursor.require(preamble.tensors, cursor.count_bytes() + 16, "tensor count", preamble.tensors_at);
  header.tensors = read_tensor_table(cursor, preamble.tensors, findings);
  const std::uint64_t end = cursor.bytes.offset();  // below 2^63; the alignment below 2^32
  header.data_begin = std::min((end + alignment - 1) / alignment * alignment, file->size());
  check_offsets(header.tensors, alignment, file->size() - header.data_begin, findings);
  header.findings = findings.take();
  return header;
}

}  // namespace

Header read_header(std::shared_ptr<const File> file) {
  try {
    return read_header_of(file);
  } catch (Error& error) {
    error.in_file(file->path());
    throw;
  }
}

}  // namespace wconv::gguf
