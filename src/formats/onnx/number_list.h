// Tensor elements in protobuf's repeated numbers: float_data, int32_data, … and the lists of attributes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "formats/onnx/wire.h"
#include "wconv/tensor.h"

namespace wconv::onnx {

// How one item of a list becomes stored bytes: its low `bytes` bytes, little-endian. Integers outside [min, max] are
// errors: they would be cut.
struct ItemCodec {
  std::uint32_t field = 0;  // of TensorProto
  std::string_view name;    // of that field
  Wire wire = Wire::varint;
  std::uint32_t bytes = 0;
  bool is_int32 = false;  // the varint is cut to 32 bits, as protobuf does
  bool is_signed = true;
  std::int64_t min = 0;
  std::uint64_t max = 0;
};

// The typed field of TensorProto that holds elements of this type. 4- and 2-bit types have as many elements in one item
// of int32_data as in one byte; complex numbers have two items. Null: none (6-bit floats, which only raw_data packs).
const ItemCodec* item_codec(DType dtype);
// Of the attributes `floats` and `ints` (their single forms too).
const ItemCodec& float_codec();
const ItemCodec& int_codec();

// What a walk over a message saw of one repeated number field.
struct NumberList {
  std::uint64_t fields = 0;  // a list may be cut into several, packed or item by item
  Field first;
  void add(const Field& field) {
    if (fields++ == 0) first = field;
  }
  bool empty() const { return fields == 0 || (fields == 1 && first.size() == 0); }
};

// A message of a file, with one of its repeated number fields.
struct ListPlace {
  std::shared_ptr<const File> file;
  ByteReader& reader;
  std::uint64_t begin, end;  // of the message
  std::uint32_t field;
  const NumberList& list;
};

// Number of items; reads packed integers once.
std::uint64_t count_items(const ListPlace& place, const ItemCodec& codec);

// The list as a tensor of `items` items. Packed floats lie in the file as they are; packed integers are decoded when
// they are read; a list in several fields is decoded here, up to 64 MiB. Throws Error(kCorrupt) for another number of
// items and for values out of range.
std::shared_ptr<const TensorData> list_tensor(const ListPlace& place, const ItemCodec& codec, std::uint64_t items);

}  // namespace wconv::onnx
