#include "formats/onnx/graph_walker.h"

#include <algorithm>
#include <array>

#include "formats/onnx/schema.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::onnx {
namespace {

constexpr std::string_view kTraining = "training_info";
constexpr std::size_t kMaxCustom = 1000;  // operators that are remembered

constexpr auto kStandardDomains = std::to_array<std::string_view>(
    {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training", "com.microsoft",
     "com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc"});

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "/" + name; }

class Walker {
 public:
  explicit Walker(const TensorContext& context) : context_(context), tensors_(context) {}

  Contents walk() {
    const Frame model{nullptr, {0, Wire::length_delimited, 0, 0, 0, context_.file->size(), 0}, 0};
    Cursor cursor(context_.reader, model.field, "ModelProto");
    bool has_graph = false;
    while (cursor.next()) {
      if (cursor.field().number == model_proto::kGraph) {
        if (has_graph) fail_at(cursor.field().at, ErrorCode::kCorrupt, "ModelProto: a second graph; one is right");
        has_graph = true;
      }
      read_model_field(cursor, model);
    }
    if (!has_graph) fail_at(context_.file->size(), ErrorCode::kCorrupt, "ModelProto: there is no graph: truncated?");
    for (const std::string& defined : functions_) contents_.custom_operators.erase(defined);
    contents_.found = std::move(tensors_.found);
    contents_.messages = std::move(tensors_.messages);
    contents_.sparse = std::move(tensors_.sparse);
    return std::move(contents_);
  }

 private:
  void read_model_field(Cursor& cursor, const Frame& model) {
    switch (cursor.field().number) {
      case model_proto::kIrVersion:
        contents_.ir_version = cursor.number();
        break;
      case model_proto::kModelVersion:
        contents_.model_version = cursor.number();
        break;
      case model_proto::kProducerName:
        contents_.producer_name = cursor.text();
        break;
      case model_proto::kProducerVersion:
        contents_.producer_version = cursor.text();
        break;
      case model_proto::kDomain:
        contents_.domain = cursor.text();
        break;
      case model_proto::kDocString:
        contents_.doc_string = cursor.text();
        break;
      case model_proto::kOpsetImport:
        read_opset(cursor.bytes());
        break;
      case model_proto::kMetadataProps:
        read_property(cursor.bytes());
        break;
      case model_proto::kGraph:
        read_graph(cursor.bytes(), model, "");
        break;
      case model_proto::kTrainingInfo:
        read_training(cursor.bytes(), model);
        break;
      case model_proto::kFunctions:
        read_function(cursor.bytes(), model);
        break;
      default:
        break;
    }
  }

  void read_opset(const Field& message) {
    Cursor cursor(context_.reader, message, "OperatorSetIdProto");
    std::string domain;
    std::uint64_t version = 0;
    while (cursor.next()) {
      if (cursor.field().number == opset_proto::kDomain) domain = cursor.text();
      if (cursor.field().number == opset_proto::kVersion) version = cursor.number();
    }
    contents_.opsets.emplace_back(domain.empty() ? "ai.onnx" : std::move(domain), version);
  }

  void read_property(const Field& message) {
    Cursor cursor(context_.reader, message, "metadata_props");
    auto& [key, value] = contents_.properties.emplace_back();
    while (cursor.next()) {
      if (cursor.field().number == entry_proto::kKey) key = cursor.text();
      if (cursor.field().number == entry_proto::kValue) value = cursor.text();
    }
  }

  void read_training(const Field& message, const Frame& model) {
    const Frame frame{&model, message, model.depth + 1};
    const std::string path = fmt::format("{}{}", kTraining, training_++);
    Cursor cursor(context_.reader, message, "TrainingInfoProto");
    while (cursor.next()) {
      if (cursor.field().number == training_info_proto::kInitialization)
        read_graph(cursor.bytes(), frame, path + "/initialization");
      if (cursor.field().number == training_info_proto::kAlgorithm)
        read_graph(cursor.bytes(), frame, path + "/algorithm");
    }
  }

  void read_function(const Field& message, const Frame& model) {
    const Frame frame{&model, message, model.depth + 1};
    std::string name, domain;
    Cursor names(context_.reader, message, "FunctionProto");
    while (names.next()) {
      if (names.field().number == function_proto::kName) name = names.text();
      if (names.field().number == function_proto::kDomain) domain = names.text();
    }
    ++contents_.functions;
    functions_.push_back(domain + ":" + name);
    Scope scope{frame, name, 1, false};
    Cursor cursor(context_.reader, message, "FunctionProto");
    while (cursor.next()) {
      if (cursor.field().number == function_proto::kNode) read_node(cursor.bytes(), scope);
      if (cursor.field().number == function_proto::kAttributeProto) {
        Node defaults;
        defaults.name = "attributes";
        read_attribute(cursor.bytes(), frame, defaults, scope);
      }
    }
  }

  void read_graph(const Field& message, const Frame& parent, std::string path) {
    const Frame frame{&parent, message, parent.depth + 1};
    check_depth(frame);
    const bool main = parent.parent == nullptr && path.empty();
    const bool runs = !path.starts_with(kTraining);
    Scope scope{frame, std::move(path), main ? 0 : frame.depth, runs, tensors_.found.size()};
    Cursor cursor(context_.reader, message, "GraphProto");
    while (cursor.next()) {
      switch (cursor.field().number) {
        case graph_proto::kNode:
          read_node(cursor.bytes(), scope);
          break;
        case graph_proto::kInitializer:
          tensors_.add_initializer(cursor.bytes(), scope);
          break;
        case graph_proto::kSparseInitializer:
          tensors_.add_sparse(cursor.bytes(), frame, "", scope, nullptr);
          break;
        default:
          if (main) read_main_field(cursor);
      }
    }
    tensors_.finish(scope);
  }

  void read_main_field(Cursor& cursor) {
    const std::uint32_t number = cursor.field().number;
    if (number == graph_proto::kName) contents_.graph_name = cursor.text();
    if (number == graph_proto::kDocString) contents_.graph_doc_string = cursor.text();
    if (number == graph_proto::kInput) contents_.inputs.push_back(read_value_info(context_.reader, cursor.bytes()));
    if (number == graph_proto::kOutput) contents_.outputs.push_back(read_value_info(context_.reader, cursor.bytes()));
  }

  void read_node(const Field& message, Scope& scope) {
    const Frame frame{&scope.frame, message, scope.frame.depth + 1};
    Node node;
    Cursor cursor(context_.reader, message, "NodeProto");
    while (cursor.next()) {
      const std::uint32_t number = cursor.field().number;
      if (number == node_proto::kInput) node.inputs.push_back(cursor.bytes());
      if (number == node_proto::kOutput && node.output.empty()) node.output = cursor.text();
      if (number == node_proto::kName) node.name = cursor.text();
      if (number == node_proto::kOpType) node.op_type = cursor.text();
      if (number == node_proto::kDomain) node.domain = cursor.text();
      if (number == node_proto::kAttribute) node.attributes.push_back(cursor.bytes());
    }
    if (std::find(kStandardDomains.begin(), kStandardDomains.end(), node.domain) == kStandardDomains.end() &&
        contents_.custom_operators.size() < kMaxCustom)
      contents_.custom_operators.insert(node.domain + ":" + node.op_type);
    note_uses(node, scope);
    for (const Field& attribute : node.attributes) read_attribute(attribute, frame, node, scope);
  }

  std::string text_of(const Field& field) {
    context_.reader.seek(field.begin);
    return std::string(context_.reader.take_text(field.size(), "input"));
  }

  void note_uses(const Node& node, Scope& scope) {
    if (node.output.ends_with(kStoredEnding)) contents_.stored_names.insert(node.output);
    if (!node.domain.empty() && node.domain != "ai.onnx") return;
    if (node.op_type == "Cast" && node.inputs.size() == 1 &&
        text_of(node.inputs[0]) == node.output + std::string(kStoredEnding))
      scope.casts.insert(node.output);
    if (node.op_type != "Resize" && node.op_type != "Upsample") return;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) scope.exact.insert(text_of(node.inputs[i]));
  }

  void read_attribute(const Field& message, const Frame& parent, const Node& node, Scope& scope) {
    const Frame frame{&parent, message, parent.depth + 1};
    Attribute attribute;
    Cursor cursor(context_.reader, message, "AttributeProto");
    while (cursor.next()) add_attribute_field(cursor, attribute);
    if (attribute.is_reference) return;
    if (node.is_constant()) tensors_.add_constant(frame, node, attribute, scope);
    const std::string path = join(join(scope.path, node.label()), attribute.name);
    for (const Field& graph : attribute.graphs) read_graph(graph, frame, path);
    if (node.is_constant()) return;
    const std::string name = node.label() + "/" + attribute.name;
    for (const Field& tensor : attribute.tensors) {
      const bool one = attribute.tensors.size() == 1;
      tensors_.add_attribute(tensor, frame, one ? name : fmt::format("{}/{}", name, &tensor - attribute.tensors.data()),
                             scope);
    }
    for (const Field& sparse : attribute.sparse) tensors_.add_sparse(sparse, frame, name, scope, &parent);
  }

  static void add_attribute_field(Cursor& cursor, Attribute& attribute) {
    using namespace attribute_proto;
    switch (cursor.field().number) {
      case kName:
        attribute.name = cursor.text();
        break;
      case kT:
      case kTensors:
        attribute.tensors.push_back(cursor.bytes());
        break;
      case kSparseTensor:
      case kSparseTensors:
        attribute.sparse.push_back(cursor.bytes());
        break;
      case kG:
      case kGraphs:
        attribute.graphs.push_back(cursor.bytes());
        break;
      case kF:
        attribute.f.add(cursor.field());
        break;
      case kI:
        attribute.i.add(cursor.field());
        break;
      case kFloats:
        attribute.floats.add(cursor.field());
        break;
      case kInts:
        attribute.ints.add(cursor.field());
        break;
      case kRefAttrName:
        attribute.is_reference = cursor.bytes().size() > 0;
        break;
      case kS:
      case kStrings:
        ++attribute.strings;
        break;
      default:
        break;
    }
  }

  static void check_depth(const Frame& frame) {
    if (frame.depth > kMaxDepth)
      fail_at(frame.field.at, ErrorCode::kCorrupt, "graphs are nested in graphs, more than {} messages deep",
              kMaxDepth);
  }

  const TensorContext& context_;
  Collector tensors_;
  Contents contents_;
  std::vector<std::string> functions_;  // "domain:name" of the model's own
  std::size_t training_ = 0;
};

}  // namespace

Contents walk_model(const TensorContext& context) { return Walker(context).walk(); }

}  // namespace wconv::onnx
