// ONNX: protobuf messages without their schema. The label of a node is its tag; bytes that could be a message are one.
#include "structure.h"

namespace wconv::fuzz {
namespace {

constexpr int kMaxDepth = 40;
constexpr std::uint64_t kMaxField = 100'000;
constexpr std::string_view kWords[] = {"location",
                                       "offset",
                                       "length",
                                       "checksum",
                                       "weights.bin",
                                       "../x",
                                       "/etc/passwd",
                                       "Constant",
                                       "value",
                                       "value_floats",
                                       "sparse_value",
                                       "ai.onnx",
                                       "If",
                                       "Loop",
                                       "0",
                                       "-1",
                                       "18446744073709551615",
                                       "",
                                       "\xff",
                                       std::string_view("\0\0\x80\x3f\0\0\0\x40", 8)};

bool parse_message(std::string_view bytes, int depth, Node& message) {
  Cursor cursor(bytes);
  while (!cursor.at_end()) {
    const std::uint64_t tag = cursor.varint(), field = tag >> 3, wire = tag & 7;
    if (!cursor.ok() || field == 0 || field > kMaxField || (wire != 0 && wire != 1 && wire != 2 && wire != 5))
      return false;
    const int label = static_cast<int>(tag);
    if (wire == 2) {
      const std::string_view content = cursor.take(cursor.varint());
      Node inner = group_node(label);
      const bool is_message = depth < kMaxDepth && !content.empty() && parse_message(content, depth + 1, inner);
      message.parts.push_back(is_message ? std::move(inner) : text_node(label, content));
    } else {
      const std::uint64_t number = wire == 0 ? cursor.varint() : cursor.number(wire == 1 ? 8 : 4);
      message.parts.push_back(number_node(label, number));
    }
  }
  return cursor.ok();
}

bool parse(std::string_view bytes, Node& root) {
  root = group_node(0);
  return !bytes.empty() && parse_message(bytes, 0, root);
}

std::string write(const Node& root) {
  std::string bytes;
  for (const Node& field : root.parts) {
    bytes += varint(static_cast<std::uint64_t>(field.label));
    if (field.kind == NodeKind::kNumber) {
      const int wire = field.label & 7;
      bytes += wire == 0 ? varint(field.number) : little_endian(field.number, wire == 1 ? 8 : 4);
    } else {
      const std::string content = field.kind == NodeKind::kText ? field.text : write(field);
      bytes += varint(content.size() + field.lie) + content;
    }
  }
  return bytes;
}

// Every message that looks like a TensorProto gets as much raw_data as dims and data_type say.
void settle(Node& message) {
  constexpr int kDims = 1 << 3, kDataType = 2 << 3, kRawData = 9 << 3 | 2;
  std::vector<std::uint64_t> shape;
  std::optional<DType> dtype;
  Node* data = nullptr;
  for (Node& field : message.parts) {
    if (field.kind == NodeKind::kGroup) settle(field);
    if (field.kind == NodeKind::kNumber && field.label == kDims) shape.push_back(field.number);
    if (field.kind == NodeKind::kNumber && field.label == kDataType) dtype = dtype_from_onnx(field.number);
    if (field.kind == NodeKind::kText && field.label == kRawData) data = &field;
  }
  const std::optional<std::uint64_t> size = small_size(dtype, shape);
  if (data != nullptr && size) data->text.resize(*size, 'd');
}

}  // namespace

const Grammar& onnx_grammar() {
  static const Grammar grammar{parse, write, kWords, settle};
  return grammar;
}

}  // namespace wconv::fuzz
