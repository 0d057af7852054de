#include "formats/onnx/wire.h"

#include <algorithm>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "wconv/error.h"

namespace wconv::onnx {

std::uint64_t read_varint(ByteReader& reader, std::uint64_t& position, std::uint64_t end, std::string_view what,
                          std::string_view message) {
  reader.seek(position);
  const auto head = reader.peek(std::min<std::uint64_t>(protozero::max_varint_length, end - position));
  const char* data = reinterpret_cast<const char*>(head.data());
  const char* const begin = data;
  try {
    const std::uint64_t value = protozero::decode_varint(&data, data + head.size());
    position += static_cast<std::uint64_t>(data - begin);
    return value;
  } catch (const protozero::exception&) {
    fail_at(position, ErrorCode::kCorrupt, "{}: {}", message,
            head.size() < protozero::max_varint_length
                ? fmt::format("it ends inside {}: truncated?", what)
                : fmt::format("{} is a number of more than {} bytes", what, protozero::max_varint_length));
  }
}

bool Cursor::next() {
  if (position_ == end_) return false;
  field_ = {};
  field_.at = position_;
  const std::uint64_t tag = read_varint(reader_, position_, end_, "a tag", message_);
  field_.number = static_cast<std::uint32_t>(tag >> 3);
  field_.wire = static_cast<Wire>(tag & 7);
  if (tag >> 32 != 0 || field_.number == 0)
    fail_at(field_.at, ErrorCode::kCorrupt, "{}: {} is no tag of a field", message_, tag);
  field_.length_at = field_.begin = position_;
  std::uint64_t size = 0;
  switch (field_.wire) {
    case Wire::varint:
      field_.value = read_varint(reader_, position_, end_, "a value", message_);
      size = position_ - field_.begin;
      position_ = field_.begin;
      break;
    case Wire::fixed64:
      size = 8;
      break;
    case Wire::fixed32:
      size = 4;
      break;
    case Wire::length_delimited:
      size = read_varint(reader_, position_, end_, "a length", message_);
      field_.begin = position_;
      break;
    default:
      fail_at(field_.at, ErrorCode::kCorrupt, "{}: field {} has the wire type {}; ONNX has 0, 1, 2 and 5", message_,
              field_.number, tag & 7);
  }
  if (size > end_ - field_.begin)
    fail_at(field_.at, ErrorCode::kCorrupt, "{}: field {} claims {} bytes, {} are left: truncated?", message_,
            field_.number, size, end_ - field_.begin);
  field_.end = position_ = field_.begin + size;
  return true;
}

void Cursor::require(Wire wire) const {
  if (field_.wire == wire) return;
  fail_at(field_.at, ErrorCode::kCorrupt, "{}: field {} has the wire type {}, {} is right", message_, field_.number,
          static_cast<unsigned>(field_.wire), static_cast<unsigned>(wire));
}

std::uint64_t Cursor::number() const {
  require(Wire::varint);
  return field_.value;
}

const Field& Cursor::bytes() const {
  require(Wire::length_delimited);
  return field_;
}

std::string Cursor::text() const {
  bytes();
  reader_.seek(field_.begin);
  return std::string(reader_.take_text(field_.size(), message_));
}

}  // namespace wconv::onnx
