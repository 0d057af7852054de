#include "formats/onnx/value_types.h"

#include <fmt/format.h>

#include "formats/onnx/schema.h"
#include "wconv/dtype.h"
#include "wconv/error.h"

namespace wconv::onnx {
namespace {

std::string element_name(std::uint64_t data_type) {
  if (data_type == tensor_proto::kTypeString) return "STRING";
  if (const auto dtype = dtype_from_onnx(data_type)) return std::string(name(*dtype));
  return fmt::format("type {}", data_type);
}

std::string dim_text(ByteReader& reader, const Field& message) {
  Cursor cursor(reader, message, "Dimension");
  std::string text = "?";
  while (cursor.next()) {
    if (cursor.field().number == shape_proto::kDimValue)
      text = std::to_string(static_cast<std::int64_t>(cursor.number()));
    if (cursor.field().number == shape_proto::kDimParam) text = cursor.text();
  }
  return text.empty() ? "?" : text;
}

std::string shape_text(ByteReader& reader, const Field& message) {
  Cursor cursor(reader, message, "TensorShapeProto");
  std::string text;
  while (cursor.next()) {
    if (cursor.field().number != shape_proto::kDim) continue;
    text += (text.empty() ? "" : ",") + dim_text(reader, cursor.bytes());
  }
  return "[" + text + "]";
}

// TypeProto.Tensor and TypeProto.SparseTensor. Without a shape the rank is unknown: "F32[...]".
std::string tensor_text(ByteReader& reader, const Field& message) {
  Cursor cursor(reader, message, "TypeProto.Tensor");
  std::string element = "?", shape = "[...]";
  while (cursor.next()) {
    if (cursor.field().number == type_proto::kElemType) element = element_name(cursor.number());
    if (cursor.field().number == type_proto::kShape) shape = shape_text(reader, cursor.bytes());
  }
  return element + shape;
}

std::string type_text(ByteReader& reader, const Field& message, unsigned depth);

// Sequence and Optional (the element type is field 1) and Map (a key's type in 1, the value's in 2).
std::string nested_text(ByteReader& reader, const Field& message, std::string_view kind, unsigned depth) {
  Cursor cursor(reader, message, "TypeProto");
  std::string text;
  while (cursor.next()) {
    const bool map_key = cursor.field().number == type_proto::kElemType && cursor.field().wire == Wire::varint;
    if (map_key) text += element_name(cursor.number());
    if (!map_key && cursor.field().number <= type_proto::kMapValue)
      text += (text.empty() ? "" : ",") + type_text(reader, cursor.bytes(), depth + 1);
  }
  return fmt::format("{}({})", kind, text);
}

std::string type_text(ByteReader& reader, const Field& message, unsigned depth) {
  if (depth > kMaxDepth)
    fail_at(message.at, ErrorCode::kCorrupt, "TypeProto: messages are nested more than {} deep", kMaxDepth);
  Cursor cursor(reader, message, "TypeProto");
  std::string text;
  while (cursor.next()) {
    switch (cursor.field().number) {
      case type_proto::kTensor:
        text = tensor_text(reader, cursor.bytes());
        break;
      case type_proto::kSparseTensor:
        text = fmt::format("SPARSE({})", tensor_text(reader, cursor.bytes()));
        break;
      case type_proto::kSequence:
        text = nested_text(reader, cursor.bytes(), "SEQUENCE", depth);
        break;
      case type_proto::kMap:
        text = nested_text(reader, cursor.bytes(), "MAP", depth);
        break;
      case type_proto::kOptional:
        text = nested_text(reader, cursor.bytes(), "OPTIONAL", depth);
        break;
      case type_proto::kOpaque:
        text = "OPAQUE";
        break;
      default:
        break;
    }
  }
  return text;
}

}  // namespace

ValueInfo read_value_info(ByteReader& reader, const Field& message) {
  constexpr unsigned kDepth = 3;  // ModelProto, GraphProto, ValueInfoProto
  ValueInfo info;
  Cursor cursor(reader, message, "ValueInfoProto");
  while (cursor.next()) {
    if (cursor.field().number == value_info_proto::kName) info.name = cursor.text();
    if (cursor.field().number == value_info_proto::kType) info.type = type_text(reader, cursor.bytes(), kDepth);
  }
  return info;
}

}  // namespace wconv::onnx
