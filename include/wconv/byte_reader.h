// A bounded cursor over a file or a span of memory, for headers and other metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "wconv/file.h"

namespace wconv {

// Every method succeeds or throws Error(kCorrupt) with the field's name and the byte offset, and then the cursor has
// not moved. Sizes may be hostile: they are compared with what is left before anything is allocated. Not
// thread-safe. Holds a window of the file (64 KiB, or the largest single take).
class ByteReader {
 public:
  enum class Endian { kLittle, kBig };

  explicit ByteReader(std::shared_ptr<const File> file);                                 // the whole file
  ByteReader(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end);  // a range of it
  explicit ByteReader(std::span<const std::byte> bytes);  // memory that outlives the reader

  void set_endian(Endian endian) { endian_ = endian; }
  std::uint64_t offset() const { return position_; }  // in the file
  std::uint64_t remaining() const { return end_ - position_; }
  bool at_end() const { return position_ == end_; }
  void seek(std::uint64_t offset);  // within [begin, end]

  // `size` bytes; the view lives until the next call on this reader.
  std::span<const std::byte> take(std::uint64_t size, std::string_view field);
  void skip(std::uint64_t size, std::string_view field);
  std::span<const std::byte> peek(std::uint64_t size);  // fewer at the end; does not move
  std::string_view take_text(std::uint64_t size, std::string_view field);
  // Up to and without '\n', which is skipped; at most `max_bytes`.
  std::string_view take_line(std::string_view field, std::uint64_t max_bytes);

  std::uint8_t u8(std::string_view field);
  std::uint16_t u16(std::string_view field);
  std::uint32_t u32(std::string_view field);
  std::uint64_t u64(std::string_view field);
  std::int32_t i32(std::string_view field) { return static_cast<std::int32_t>(u32(field)); }
  std::int64_t i64(std::string_view field) { return static_cast<std::int64_t>(u64(field)); }
  float f32(std::string_view field);
  double f64(std::string_view field);

 private:
  std::uint64_t number(std::size_t size, std::string_view field);
  std::shared_ptr<const File> file_;
  std::uint64_t begin_ = 0, end_ = 0, position_ = 0;
  Endian endian_ = Endian::kLittle;
  std::span<const std::byte> memory_;  // when file_ is null; starts at begin_
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // file offset of window_[0]
};

// Checked arithmetic over hostile numbers: false on overflow.
inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}
inline bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

}  // namespace wconv
