#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/list_text.h"
#include "formats/onnx/graph_walker.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/probe.h"
#include "wconv/error.h"

namespace wconv {
namespace onnx {
namespace {

constexpr std::size_t kNamed = 5;  // in one finding

// Names of the main graph stay as they are; one that a graph inside it has too gets the path of that graph.
void give_names(std::vector<Found>& found) {
  std::vector<Found*> order;
  for (Found& entry : found) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const Found* a, const Found* b) { return a->depth < b->depth; });
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, std::size_t> numbers;  // of a path: all below are taken; counting anew is quadratic
  for (Found* entry : order) {
    std::string name = entry->name;
    if (!taken.insert(name).second) {
      const std::string path = entry->path.empty() ? name : entry->path + "/" + name;
      std::size_t& number = numbers.try_emplace(path, 1).first->second;
      do {
        name = number == 1 ? path : fmt::format("{}#{}", path, number);
        ++number;
      } while (!taken.insert(name).second);
    }
    entry->weight.name = std::move(name);
  }
}

void add_tensors(std::vector<Found>& all, Model& model, Graph& graph) {
  std::vector<std::string> strings;
  for (Found& found : all) {
    const std::string& name = found.weight.name;
    if (found.parsed.tensor) {
      Tensor tensor = std::move(*found.parsed.tensor);
      tensor.info.name = name;
      tensor.is_parameter = found.exact;
      Weight& weight = graph.weights.emplace_back(std::move(found.weight));
      weight.name = tensor.info.name;
      weight.dtype = tensor.info.dtype;
      weight.shape = tensor.info.shape;
      weight.data = tensor.data;
      weight.external = tensor.source_file != graph.file;
      model.tensors.push_back(std::move(tensor));
    } else if (!found.parsed.refused.empty()) {
      model.refused.push_back({name, found.parsed.refused});
    } else {
      strings.push_back(name);
    }
  }
  if (strings.empty()) return;
  model.findings.push_back({Severity::kWarning, "string-tensor",
                            fmt::format("{} of strings, which {} no weight: {}",
                                        strings.size() == 1 ? "a tensor" : fmt::format("{} tensors", strings.size()),
                                        strings.size() == 1 ? "is" : "are", quoted_names(strings, kNamed))});
  model.left_out = std::move(strings);
}

MetaValue values_text(const std::vector<ValueInfo>& values, const std::set<std::string>& without) {
  std::vector<std::string> texts;
  for (const ValueInfo& value : values)
    if (!without.contains(value.name))
      texts.push_back(value.type.empty() ? value.name : value.name + ": " + value.type);
  return {MetaType::kArray, MetaArray{MetaType::kString, std::move(texts)}};
}

// Names of the main graph's initializers: before IR version 4 they had to be inputs too.
std::set<std::string> initializer_names(const std::vector<Found>& found) {
  std::set<std::string> names;
  for (const Found& entry : found)
    if (entry.depth == 0 && entry.weight.role == Role::kInitializer)
      names.insert(entry.weight.through_cast ? entry.name + std::string(kStoredEnding) : entry.name);
  return names;
}

Metadata metadata_of(const Contents& contents, std::vector<Finding>& findings) {
  Metadata metadata;
  std::set<std::string> keys;
  std::vector<std::string> twice;
  const auto add = [&](const std::string& key, MetaValue value) {
    if (!keys.insert(key).second) return twice.push_back(key);
    metadata.append(key, std::move(value));
  };
  const auto add_text = [&](const std::string& key, const std::string& text) {
    if (!text.empty()) add(key, MetaValue::string(text));
  };
  add("onnx.ir_version", MetaValue::u64(contents.ir_version));
  for (const auto& [domain, version] : contents.opsets) add("onnx.opset." + domain, MetaValue::u64(version));
  add_text("onnx.producer_name", contents.producer_name);
  add_text("onnx.producer_version", contents.producer_version);
  add_text("onnx.domain", contents.domain);
  if (contents.model_version != 0) add("onnx.model_version", MetaValue::u64(contents.model_version));
  add_text("onnx.doc_string", contents.doc_string);
  add_text("onnx.graph.name", contents.graph_name);
  add_text("onnx.graph.doc_string", contents.graph_doc_string);
  add("onnx.graph.inputs", values_text(contents.inputs, initializer_names(contents.found)));
  add("onnx.graph.outputs", values_text(contents.outputs, {}));
  for (const SparseShape& sparse : contents.sparse)
    add("onnx.sparse." + sparse.name, {MetaType::kArray, MetaArray{MetaType::kU64, sparse.dims}});
  for (const auto& [key, value] : contents.properties) add(key, MetaValue::string(value));
  if (!twice.empty())
    findings.push_back(
        {Severity::kWarning, "metadata-twice",
         fmt::format("metadata that stands there twice; the first is taken: {}", quoted_names(twice, kNamed))});
  return metadata;
}

void add_findings(const Contents& contents, const ExternalFiles& external, std::vector<Finding>& findings) {
  const auto names = [](const std::set<std::string>& set) {
    return quoted_names(std::vector<std::string>(set.begin(), set.end()), kNamed);
  };
  if (contents.opsets.empty())
    findings.push_back({Severity::kWarning, "no-opset", "the model says no opset_import; ONNX Runtime refuses it"});
  if (!contents.custom_operators.empty())
    findings.push_back({Severity::kNote, "custom-operator",
                        fmt::format("operators that are neither ONNX's nor ONNX Runtime's, and need a library of "
                                    "their own: {}",
                                    names(contents.custom_operators))});
  if (!external.unknown_keys().empty())
    findings.push_back({Severity::kNote, "external-key",
                        fmt::format("external_data has keys that are not ONNX's, and are ignored: {}",
                                    names(external.unknown_keys()))});
  if (external.has_checksum())
    findings.push_back({Severity::kWarning, "external-checksum",
                        "external_data has SHA-1 checksums, which wconv does not compare; onnx and ONNX Runtime don't "
                        "either: compare them with sha1sum"});
  if (!contents.sparse.empty()) {
    std::vector<std::string> sparse;
    for (const SparseShape& tensor : contents.sparse) sparse.push_back(tensor.name);
    findings.push_back(
        {Severity::kNote, "sparse-tensor",
         fmt::format("sparse tensors are listed as NAME.values and NAME.indices: {}", quoted_names(sparse, kNamed))});
  }
}

std::uint64_t opset_of(const Contents& contents) {
  for (const auto& [domain, version] : contents.opsets)
    if (domain == "ai.onnx") return version;
  return 0;
}

Model make_model(std::shared_ptr<const File> file) {
  ByteReader reader(file);
  ExternalFiles external(file);
  Contents contents = walk_model({file, reader, external});
  give_names(contents.found);
  Model model;
  model.format = "onnx";
  model.path = file->path();
  model.files.push_back({file->path(), file->size(), file});
  for (const auto& data : external.files()) model.files.push_back({data->path(), data->size(), data});
  model.metadata = metadata_of(contents, model.findings);
  add_findings(contents, external, model.findings);
  auto graph = std::make_shared<Graph>();
  graph->file = file;
  graph->messages = std::move(contents.messages);
  graph->ir_version = contents.ir_version;
  graph->opset = opset_of(contents);
  graph->metadata = model.metadata;
  graph->stored_names = std::move(contents.stored_names);
  add_tensors(contents.found, model, *graph);
  model.graph = std::move(graph);
  return model;
}

class Reader final : public FormatReader {
 public:
  std::string_view name() const override { return "onnx"; }
  bool probe(std::span<const std::byte> head) const override { return looks_like_model(head); }
  Model open(std::shared_ptr<const File> file, const ReadOptions& options) const override {
    if (!options.key.empty())
      throw Error(ErrorCode::kUsage, "--key picks a part of a PyTorch checkpoint; this is ONNX").in_file(file->path());
    const std::string path = file->path();
    try {
      return make_model(std::move(file));
    } catch (Error& error) {
      throw error.in_file(path);
    }
  }
};

}  // namespace
}  // namespace onnx

const FormatReader& onnx_reader() {
  static const onnx::Reader reader;
  return reader;
}

}  // namespace wconv
