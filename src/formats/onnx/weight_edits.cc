#include "formats/onnx/weight_edits.h"

#include <protozero/pbf_writer.hpp>

#include "formats/onnx/schema.h"
#include "wconv/error.h"

namespace wconv::onnx {
namespace {

using protozero::pbf_writer;

std::string text_field(std::uint32_t number, const std::string& text) {
  std::string bytes;
  pbf_writer(bytes).add_string(number, text);
  return bytes;
}

std::string number_field(std::uint32_t number, std::int64_t value) {
  std::string bytes;
  pbf_writer(bytes).add_int64(number, value);
  return bytes;
}

// The field `node` of a graph: Cast(input) → output.
std::string cast_node(const std::string& input, const std::string& output, DType to) {
  constexpr std::uint32_t kType = 20;  // of AttributeProto
  constexpr std::int32_t kInt = 2;
  std::string bytes;
  pbf_writer graph(bytes);
  pbf_writer node(graph, graph_proto::kNode);
  node.add_string(node_proto::kInput, input);
  node.add_string(node_proto::kOutput, output);
  node.add_string(node_proto::kName, output + "/cast" + std::string(kStoredEnding));
  node.add_string(node_proto::kOpType, "Cast");
  pbf_writer attribute(node, node_proto::kAttribute);
  attribute.add_string(attribute_proto::kName, "to");
  attribute.add_int64(attribute_proto::kI, info(to).onnx);
  attribute.add_enum(kType, kInt);
  attribute.commit();
  node.commit();
  return bytes;
}

std::string external_fields(const NewPlace& place) {
  std::string bytes;
  pbf_writer tensor(bytes);
  const auto add = [&](const std::string& key, const std::string& value) {
    pbf_writer entry(tensor, tensor_proto::kExternalData);
    entry.add_string(entry_proto::kKey, key);
    entry.add_string(entry_proto::kValue, value);
  };
  add("location", place.location);
  add("offset", std::to_string(place.offset));
  add("length", std::to_string(place.size));
  tensor.add_enum(tensor_proto::kDataLocation, static_cast<std::int32_t>(tensor_proto::kLocationExternal));
  return bytes;
}

bool holds_data(std::uint32_t number) {
  using namespace tensor_proto;
  switch (number) {
    case kFloatData:
    case kInt32Data:
    case kInt64Data:
    case kRawData:
    case kDoubleData:
    case kUint64Data:
    case kExternalData:
    case kDataLocation:
      return true;
    default:
      return false;
  }
}

// Length-delimited: tag and length; the bytes follow.
std::string raw_head(std::uint64_t size) {
  std::string bytes;
  protozero::add_varint_to_buffer(&bytes, tensor_proto::kRawData << 3 | 2);
  protozero::add_varint_to_buffer(&bytes, size);
  return bytes;
}

}  // namespace

void WeightEditor::edit_tensor(const Weight& weight, DType dtype, const NewPlace& place, const std::string& new_name) {
  const MessagePlace message = rewrite_.message(weight.message);
  Cursor cursor(reader_, message.begin, message.end, "TensorProto");
  while (cursor.next()) {
    const Field& field = cursor.field();
    if (holds_data(field.number)) rewrite_.replace(weight.message, field, "");
    if (field.number == tensor_proto::kDataType && dtype != weight.dtype)
      rewrite_.replace(weight.message, field, number_field(field.number, info(dtype).onnx));
    if (field.number == tensor_proto::kName && !new_name.empty())
      rewrite_.replace(weight.message, field, text_field(field.number, new_name));
  }
  if (!place.location.empty()) {
    rewrite_.insert(weight.message, message.end, external_fields(place));
  } else {
    rewrite_.insert_tensor(weight.message, message.end, raw_head(place.size), {place.tensor, place.size});
  }
}

// The first output of a Constant.
void WeightEditor::rename_output(std::ptrdiff_t node, const std::string& name) {
  const MessagePlace place = rewrite_.message(node);
  Cursor cursor(reader_, place.begin, place.end, "NodeProto");
  while (cursor.next()) {
    if (cursor.field().number != node_proto::kOutput) continue;
    rewrite_.replace(node, cursor.field(), text_field(node_proto::kOutput, name));
    return;
  }
}

// TypeProto.tensor_type.elem_type
void WeightEditor::edit_type(std::ptrdiff_t parent, const Field& type, DType dtype) {
  const std::ptrdiff_t type_message = rewrite_.add_message(parent, type);
  Cursor cursor(reader_, type, "TypeProto");
  while (cursor.next()) {
    if (cursor.field().number != type_proto::kTensor) continue;
    const Field tensor = cursor.bytes();
    const std::ptrdiff_t message = rewrite_.add_message(type_message, tensor);
    Cursor fields(reader_, tensor, "TypeProto.Tensor");
    while (fields.next())
      if (fields.field().number == type_proto::kElemType)
        rewrite_.replace(message, fields.field(), number_field(type_proto::kElemType, info(dtype).onnx));
  }
}

const std::unordered_map<std::string, Field>& WeightEditor::inputs_of(std::ptrdiff_t graph) {
  const auto [found, is_new] = inputs_.try_emplace(graph);
  if (!is_new) return found->second;
  const MessagePlace place = rewrite_.message(graph);
  Cursor cursor(reader_, place.begin, place.end, "GraphProto");
  while (cursor.next()) {
    if (cursor.field().number != graph_proto::kInput) continue;
    const Field input = cursor.bytes();
    Cursor fields(reader_, input, "ValueInfoProto");
    while (fields.next())
      if (fields.field().number == value_info_proto::kName) found->second.emplace(fields.text(), input);
  }
  return found->second;
}

// Before IR version 4 an initializer had to be an input of its graph too, and later it may be: as it is stored.
void WeightEditor::edit_input(const Weight& weight, DType dtype, const std::string& stored) {
  const auto& inputs = inputs_of(weight.graph);
  const auto input = inputs.find(weight.through_cast ? stored : weight.value);
  if (input == inputs.end()) return;
  const std::ptrdiff_t message = rewrite_.add_message(weight.graph, input->second);
  Cursor fields(reader_, input->second, "ValueInfoProto");
  while (fields.next()) {
    if (fields.field().number == value_info_proto::kName && !weight.through_cast)
      rewrite_.replace(message, fields.field(), text_field(value_info_proto::kName, stored));
    if (fields.field().number == value_info_proto::kType) edit_type(message, fields.bytes(), dtype);
  }
}

void WeightEditor::edit(const Weight& weight, DType dtype, const NewPlace& place) {
  const bool cast = dtype != weight.dtype;
  const bool new_name = cast && !weight.through_cast;
  const std::string stored = weight.value + std::string(kStoredEnding);
  const bool constant = weight.role == Role::kConstant;
  edit_tensor(weight, dtype, place, new_name && !constant ? stored : "");
  if (cast && !constant) edit_input(weight, dtype, stored);
  if (!new_name) return;
  const std::string node = cast_node(stored, weight.value, weight.dtype);
  if (constant) {
    rename_output(weight.node, stored);
    rewrite_.insert(weight.graph, rewrite_.message(weight.node).end, node);
  } else {
    rewrite_.insert(weight.graph, rewrite_.message(weight.graph).begin, node);
  }
}

std::uint64_t cast_opset(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 13;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz:
      return 19;
    case DType::kU4:
    case DType::kI4:
      return 21;
    case DType::kF4:
      return 23;
    case DType::kF8E8M0:
      return 24;
    case DType::kU2:
    case DType::kI2:
      return 25;
    case DType::kF6E2M3:
    case DType::kF6E3M2:
      return 28;
    default:
      return 6;  // with the type as a number
  }
}

}  // namespace wconv::onnx
