// Walking protobuf messages in a file by position: what is not asked for is skipped, never read.
#pragma once

#include <cstdint>
#include <protozero/types.hpp>
#include <string>
#include <string_view>

#include "wconv/byte_reader.h"

namespace wconv::onnx {

using Wire = protozero::pbf_wire_type;

// One field of a message, by its place in the file.
struct Field {
  std::uint32_t number = 0;
  Wire wire = Wire::unknown;
  std::uint64_t at = 0;              // of its tag
  std::uint64_t length_at = 0;       // after the tag: of the length, or of the value
  std::uint64_t begin = 0, end = 0;  // of the payload: the message or bytes, or the encoded number
  std::uint64_t value = 0;           // of a varint
  std::uint64_t size() const { return end - begin; }
};

// The varint at `position` of a message that ends at `end`; moves `position` behind it. `what` and `message` are named
// in the Error(kCorrupt).
std::uint64_t read_varint(ByteReader& reader, std::uint64_t& position, std::uint64_t end, std::string_view what,
                          std::string_view message);

// The fields of one message, in order. Any number of cursors may share a reader. Throws Error(kCorrupt) with the byte
// offset for what is no protobuf or leaves the message; groups, which ONNX has never had, are refused too.
class Cursor {
 public:
  // `message` names it in errors, and outlives the cursor.
  Cursor(ByteReader& reader, std::uint64_t begin, std::uint64_t end, std::string_view message)
      : reader_(reader), message_(message), position_(begin), end_(end) {}
  Cursor(ByteReader& reader, const Field& field, std::string_view message)
      : Cursor(reader, field.begin, field.end, message) {}

  bool next();
  const Field& field() const { return field_; }

  // The current field, which must have the wire type that its kind has.
  std::uint64_t number() const;  // int32, int64, uint64, enum
  const Field& bytes() const;    // string, bytes, message
  std::string text() const;

 private:
  void require(Wire wire) const;

  ByteReader& reader_;
  std::string_view message_;
  std::uint64_t position_, end_;
  Field field_;
};

}  // namespace wconv::onnx
