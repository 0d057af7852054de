#include "wconv/byte_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "wconv/error.h"

namespace wconv {
namespace {
constexpr std::uint64_t kWindow = 64 * 1024;
}

ByteReader::ByteReader(std::shared_ptr<const File> file) : file_(std::move(file)), end_(file_->size()) {}

ByteReader::ByteReader(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end)
    : file_(std::move(file)), begin_(begin), end_(end), position_(begin) {
  if (begin > end || end > file_->size()) {
    fail_at(begin, ErrorCode::kCorrupt, "bytes {} to {} lie outside the file of {} bytes", begin, end, file_->size());
  }
}

ByteReader::ByteReader(std::span<const std::byte> bytes) : end_(bytes.size()), memory_(bytes) {}

void ByteReader::seek(std::uint64_t offset) {
  if (offset < begin_ || offset > end_) {
    fail_at(position_, ErrorCode::kCorrupt, "offset {} lies outside bytes {} to {}", offset, begin_, end_);
  }
  position_ = offset;
}

std::span<const std::byte> ByteReader::peek(std::uint64_t size) {
  size = std::min(size, remaining());
  if (!file_) return memory_.subspan(position_, size);
  const bool inside = position_ >= window_begin_ && position_ - window_begin_ <= window_.size() &&
                      size <= window_.size() - (position_ - window_begin_);
  if (!inside) {
    window_.resize(std::min(std::max(size, kWindow), remaining()));
    window_begin_ = position_;
    file_->read(position_, window_);
  }
  return std::span<const std::byte>(window_).subspan(position_ - window_begin_, size);
}

std::span<const std::byte> ByteReader::take(std::uint64_t size, std::string_view field) {
  if (size > remaining()) {
    fail_at(position_, ErrorCode::kCorrupt, "{} needs {} bytes, {} left; cut short?", field, size, remaining());
  }
  const auto bytes = peek(size);
  position_ += size;
  return bytes;
}

void ByteReader::skip(std::uint64_t size, std::string_view field) {
  if (size > remaining()) {
    fail_at(position_, ErrorCode::kCorrupt, "{} needs {} bytes, {} left; cut short?", field, size, remaining());
  }
  position_ += size;
}

std::string_view ByteReader::take_text(std::uint64_t size, std::string_view field) {
  const auto bytes = take(size, field);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view ByteReader::take_line(std::string_view field, std::uint64_t max_bytes) {
  for (std::uint64_t want = 256;; want *= 4) {
    const auto bytes = peek(std::min(want, max_bytes + 1));
    const void* newline = bytes.empty() ? nullptr : std::memchr(bytes.data(), '\n', bytes.size());
    if (newline) {
      const auto size = static_cast<std::size_t>(static_cast<const std::byte*>(newline) - bytes.data());
      position_ += size + 1;
      return {reinterpret_cast<const char*>(bytes.data()), size};
    }
    if (bytes.size() == remaining()) fail_at(position_, ErrorCode::kCorrupt, "{} has no end; cut short?", field);
    if (bytes.size() > max_bytes)
      fail_at(position_, ErrorCode::kCorrupt, "{} has more than {} bytes without an end", field, max_bytes);
  }
}

std::uint64_t ByteReader::number(std::size_t size, std::string_view field) {
  const auto bytes = take(size, field);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t shift = 8 * (endian_ == Endian::kLittle ? i : size - 1 - i);
    value |= std::to_integer<std::uint64_t>(bytes[i]) << shift;
  }
  return value;
}

std::uint8_t ByteReader::u8(std::string_view field) { return static_cast<std::uint8_t>(number(1, field)); }
std::uint16_t ByteReader::u16(std::string_view field) { return static_cast<std::uint16_t>(number(2, field)); }
std::uint32_t ByteReader::u32(std::string_view field) { return static_cast<std::uint32_t>(number(4, field)); }
std::uint64_t ByteReader::u64(std::string_view field) { return number(8, field); }
float ByteReader::f32(std::string_view field) { return std::bit_cast<float>(u32(field)); }
double ByteReader::f64(std::string_view field) { return std::bit_cast<double>(u64(field)); }

}  // namespace wconv
