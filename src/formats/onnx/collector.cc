#include "formats/onnx/collector.h"

#include <optional>

#include "formats/onnx/schema.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::onnx {
namespace {

struct SparseParts {
  std::optional<Field> values, indices;
  std::vector<std::uint64_t> dims;
};

SparseParts read_parts(ByteReader& reader, const Field& message) {
  SparseParts parts;
  Cursor cursor(reader, message, "SparseTensorProto");
  while (cursor.next()) {
    const Field& field = cursor.field();
    if (field.number == sparse_proto::kDims) read_dims(reader, cursor, parts.dims);
    if (field.number != sparse_proto::kValues && field.number != sparse_proto::kIndices) continue;
    auto& part = field.number == sparse_proto::kValues ? parts.values : parts.indices;
    if (part) fail_at(field.at, ErrorCode::kCorrupt, "SparseTensorProto: field {} stands there twice", field.number);
    part = cursor.bytes();
  }
  if (!parts.values || !parts.indices || parts.dims.empty())
    fail_at(message.at, ErrorCode::kCorrupt, "SparseTensorProto: values, indices and dims are needed");
  return parts;
}

void check_sparse(const ParsedTensor& values, const ParsedTensor& indices, const std::vector<std::uint64_t>& dims) {
  if (values.shape.size() != 1)
    fail(ErrorCode::kCorrupt, "the values of a sparse tensor have {} dimensions; 1 is right", values.shape.size());
  const std::uint64_t count = values.shape[0];
  if (!indices.tensor || indices.tensor->info.dtype != DType::kI64)
    fail(ErrorCode::kCorrupt, "the indices of a sparse tensor are not I64");
  if (indices.shape != values.shape && indices.shape != std::vector<std::uint64_t>{count, dims.size()})
    fail(ErrorCode::kCorrupt, "the indices of a sparse tensor have the shape [{}]; [{}] or [{},{}] is right",
         fmt::join(indices.shape, ","), count, count, dims.size());
  if (count > element_count(dims))
    fail(ErrorCode::kCorrupt, "a sparse tensor of [{}] has {} values", fmt::join(dims, ","), count);
}

}  // namespace

void Collector::add_initializer(const Field& message, Scope& scope) {
  ParsedTensor parsed = parse_tensor(context_, message, "");
  if (parsed.name.empty()) fail_at(message.at, ErrorCode::kCorrupt, "an initializer without a name");
  std::string name = parsed.name;
  claim(scope, name, message.at);
  insert(std::move(parsed), std::move(name), scope, Role::kInitializer, place(message, scope.frame), nullptr);
}

void Collector::add_sparse(const Field& message, const Frame& parent, std::string name, Scope& scope,
                           const Frame* node) {
  const Frame frame{&parent, message, parent.depth + 1};
  SparseParts parts = read_parts(context_.reader, message);
  ParsedTensor values = parse_tensor(context_, *parts.values, name);
  if (name.empty()) name = values.name;
  if (name.empty()) fail_at(message.at, ErrorCode::kCorrupt, "a sparse initializer without a name");
  ParsedTensor indices = parse_tensor(context_, *parts.indices, name);
  try {
    check_sparse(values, indices, parts.dims);
  } catch (Error& error) {
    throw error.in_tensor(name).at(message.at);
  }
  claim(scope, name, message.at);
  sparse.push_back({name, std::move(parts.dims)});
  insert(std::move(values), name + ".values", scope, Role::kSparseValues, place(*parts.values, frame), node);
  insert(std::move(indices), name + ".indices", scope, Role::kSparseIndices, place(*parts.indices, frame), node);
}

void Collector::add_constant(const Frame& frame, const Node& node, const Attribute& attribute, Scope& scope) {
  using namespace attribute_proto;
  const std::string& name = node.output.empty() ? node.label() : node.output;
  const auto& tensors = attribute.tensors;
  if (tensors.size() > 1 || attribute.sparse.size() > 1)
    throw Error(ErrorCode::kCorrupt, "a Constant of several tensors; one is right").in_tensor(name).at(frame.field.at);
  if (!tensors.empty()) {
    ParsedTensor parsed = parse_tensor(context_, tensors[0], name);
    claim(scope, name, frame.field.at);
    insert(std::move(parsed), name, scope, Role::kConstant, place(tensors[0], frame), frame.parent);
  }
  if (!attribute.sparse.empty()) add_sparse(attribute.sparse[0], frame, name, scope, frame.parent);
  check_kind(frame, name, attribute);
  if (attribute.name == "value_float") add_list(frame, name, scope, kF, true, attribute.f);
  if (attribute.name == "value_int") add_list(frame, name, scope, kI, true, attribute.i);
  if (attribute.name == "value_floats") add_list(frame, name, scope, kFloats, false, attribute.floats);
  if (attribute.name == "value_ints") add_list(frame, name, scope, kInts, false, attribute.ints);
  if (attribute.strings > 0) {
    ParsedTensor parsed;
    parsed.strings = attribute.strings;
    claim(scope, name, frame.field.at);
    insert(std::move(parsed), name, scope, Role::kConstantList, place(frame), frame.parent);
  }
}

// A list of another kind than the attribute's name says is not an empty one.
void Collector::check_kind(const Frame& frame, const std::string& name, const Attribute& attribute) {
  const std::uint64_t numbers =
      attribute.f.fields + attribute.i.fields + attribute.floats.fields + attribute.ints.fields;
  const auto right = [&](std::string_view kind, std::uint64_t fields) {
    if (attribute.name == kind && (fields != numbers || !attribute.tensors.empty() || attribute.strings > 0))
      throw Error(ErrorCode::kCorrupt, fmt::format("its {} holds values of another kind", kind))
          .in_tensor(name)
          .at(frame.field.at);
  };
  right("value_float", attribute.f.fields);
  right("value_int", attribute.i.fields);
  right("value_floats", attribute.floats.fields);
  right("value_ints", attribute.ints.fields);
}

void Collector::add_list(const Frame& frame, const std::string& name, Scope& scope, std::uint32_t field, bool single,
                         const NumberList& list) {
  const bool floats = field == attribute_proto::kF || field == attribute_proto::kFloats;
  const ItemCodec& codec = floats ? float_codec() : int_codec();
  const ListPlace list_place{context_.file, context_.reader, frame.field.begin, frame.field.end, field, list};
  ParsedTensor parsed;
  parsed.at = frame.field.at;
  Tensor& tensor = parsed.tensor.emplace();
  try {
    const std::uint64_t count = single ? 1 : count_items(list_place, codec);
    if (!single) parsed.shape.push_back(count);
    tensor.data = list_tensor(list_place, codec, count);
  } catch (Error& error) {
    throw error.in_tensor(name).at(parsed.at);
  }
  tensor.info = {"", floats ? DType::kF32 : DType::kI64, parsed.shape};
  tensor.source_dtype = tensor.info.dtype;
  tensor.source_file = context_.file;
  tensor.source_offset = list.first.begin;
  claim(scope, name, parsed.at);
  insert(std::move(parsed), name, scope, Role::kConstantList, place(frame), frame.parent);
}

void Collector::add_attribute(const Field& message, const Frame& frame, std::string name, Scope& scope) {
  ParsedTensor parsed = parse_tensor(context_, message, name);
  insert(std::move(parsed), std::move(name), scope, Role::kAttribute, place(message, frame), frame.parent);
}

void Collector::claim(Scope& scope, const std::string& name, std::uint64_t at) {
  if (!scope.names.insert(name).second)
    throw Error(ErrorCode::kCorrupt, "two values of one graph have this name").in_tensor(name).at(at);
}

void Collector::insert(ParsedTensor parsed, std::string name, const Scope& scope, Role role, std::ptrdiff_t message,
                       const Frame* node) {
  Weight weight;
  weight.role = role;
  weight.value = name;
  weight.message = message;
  weight.node = node ? place(*node) : -1;
  weight.graph = place(scope.frame);
  weight.castable = scope.castable && (role == Role::kInitializer || role == Role::kConstant);
  const bool exact = !weight.castable || element_count(parsed.shape) <= 1;
  found.push_back({std::move(parsed), std::move(name), scope.path, scope.depth, exact, std::move(weight)});
}

void Collector::finish(const Scope& scope) {
  for (std::size_t i = scope.first; i < found.size(); ++i) {
    Found& entry = found[i];
    Weight& weight = entry.weight;
    if (weight.graph != scope.frame.place || !weight.castable) continue;
    if (entry.name.ends_with(kStoredEnding)) {
      const std::string value = entry.name.substr(0, entry.name.size() - kStoredEnding.size());
      weight.through_cast = scope.casts.contains(value);
      if (weight.through_cast) entry.name = weight.value = value;
    }
    entry.exact = entry.exact || scope.exact.contains(entry.name);
  }
}

std::ptrdiff_t Collector::place(const Frame& frame) {
  if (frame.place < 0) {
    const std::ptrdiff_t parent = frame.parent ? place(*frame.parent) : -1;
    frame.place = static_cast<std::ptrdiff_t>(messages.size());
    messages.push_back({parent, frame.field.length_at, frame.field.begin, frame.field.end});
  }
  return frame.place;
}

std::ptrdiff_t Collector::place(const Field& message, const Frame& parent) {
  return place(Frame{&parent, message, parent.depth + 1});
}

}  // namespace wconv::onnx
