#include <algorithm>
#include <array>
#include <unordered_map>

#include "formats/onnx/onnx.h"
#include "formats/onnx/rewrite.h"
#include "formats/onnx/weight_edits.h"
#include "wconv/error.h"

namespace wconv {
namespace onnx {
namespace {

constexpr std::uint64_t kMaxModel = 0x7fff'ffff;    // bytes: protobuf reads no more
constexpr std::uint64_t kMinExternal = 1024;        // bytes of a weight that leaves a model that is too large
constexpr std::uint64_t kExternalAlignment = 4096;  // as onnx.proto recommends, so that the data can be mapped

const Graph* graph_of(const Model& model) { return dynamic_cast<const Graph*>(model.graph.get()); }

const std::string& source_name(const Tensor& tensor) {
  return tensor.source_name.empty() ? tensor.info.name : tensor.source_name;
}

// Index in the model of each weight of the graph; -1: it is not there.
std::vector<std::ptrdiff_t> tensors_of(const Model& model, const Graph& graph) {
  std::unordered_map<std::string_view, std::ptrdiff_t> by_name;
  for (std::size_t i = 0; i < model.tensors.size(); ++i)
    by_name.emplace(source_name(model.tensors[i]), static_cast<std::ptrdiff_t>(i));
  std::vector<std::ptrdiff_t> indexes;
  for (const Weight& weight : graph.weights) {
    const auto found = by_name.find(weight.name);
    indexes.push_back(found == by_name.end() ? -1 : found->second);
  }
  return indexes;
}

bool is_changed(const Weight& weight, const Tensor& tensor) {
  return tensor.info.dtype != weight.dtype || tensor.data != weight.data;
}

// What is wrong with a new type; empty: nothing.
std::string type_problem(const Graph& graph, const Weight& weight, DType dtype) {
  const auto describe = [&](std::string_view why) {
    return fmt::format("tensor '{}' cannot be stored as {}: {}", printable(weight.name), name(dtype), why);
  };
  if (!weight.castable)
    return describe("it is part of a node, a sparse tensor, a function or a training graph, and no Cast can follow it");
  if (info(dtype).onnx < 0) return describe("ONNX has no such type");
  const std::uint64_t opset = std::max(cast_opset(dtype), cast_opset(weight.dtype));
  if (graph.opset < opset)
    return describe(fmt::format("its Cast node needs opset {}, the model has {}", opset, graph.opset));
  if (!weight.through_cast && graph.stored_names.contains(weight.value + std::string(kStoredEnding)))
    return describe(fmt::format("the name '{}{}' is taken", printable(weight.value), kStoredEnding));
  return {};
}

std::vector<std::string> problems_of(const Graph& graph, const Weight& weight, const Tensor& tensor) {
  std::vector<std::string> problems;
  const std::string shown = printable(weight.name);
  if (tensor.info.name != weight.name)
    problems.push_back(fmt::format("tensor '{}' cannot be renamed: the graph calls it so", shown));
  if (tensor.info.shape != weight.shape)
    problems.push_back(fmt::format("tensor '{}' has the shape [{}]; the graph has [{}]", shown,
                                   fmt::join(tensor.info.shape, ","), fmt::join(weight.shape, ",")));
  if (tensor.info.dtype != weight.dtype) {
    std::string problem = type_problem(graph, weight, tensor.info.dtype);
    if (!problem.empty()) problems.push_back(std::move(problem));
  } else if (is_changed(weight, tensor) && weight.role == Role::kConstantList) {
    problems.push_back(
        fmt::format("tensor '{}' cannot be replaced: it is a list of numbers in a Constant node", shown));
  }
  return problems;
}

bool same_metadata(const Metadata& a, const Metadata& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Metadata::Entry& x, const Metadata::Entry& y) {
    return x.first == y.first && x.second.type == y.second.type && metadata_json(x.second) == metadata_json(y.second);
  });
}

class Planner {
 public:
  Planner(const Model& model, const WriteOptions& options)
      : model_(model), graph_(*graph_of(model)), tensors_(tensors_of(model, graph_)), options_(options) {}

  // Weights of at least `min_external` bytes go into the external file, with those that are in one now.
  Layout plan(std::uint64_t min_external) {
    OutputFile data;
    data.name = options_.file_name + ".data";
    Rewrite rewrite(graph_);
    ByteReader reader(graph_.file);
    WeightEditor editor(rewrite, reader);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Weight& weight = graph_.weights[i];
      const auto index = static_cast<std::size_t>(tensors_[i]);
      const Tensor& tensor = model_.tensors[index];
      NewPlace place{index, tensor.data->size_bytes(), "", 0};
      if (weight.external || (weight.role == Role::kInitializer && place.size >= min_external)) {
        place.location = data.name;
        place.offset = add_external(data, place);
      } else if (!is_changed(weight, tensor)) {
        keep(rewrite, weight, place);
        continue;
      }
      editor.edit(weight, tensor.info.dtype, place);
    }
    Layout layout;
    layout.encoded = std::move(encoded_);
    if (!data.pieces.empty()) layout.files.push_back(std::move(data));
    layout.files.push_back(rewrite.plan(options_.file_name));
    return layout;
  }

 private:
  void keep(Rewrite& rewrite, const Weight& weight, const NewPlace& place) {
    if (const auto range = weight.data->file_range()) {
      rewrite.keep_tensor(weight.message, range->offset, {place.tensor, place.size});
    } else {
      encoded_.push_back(place.tensor);
    }
  }

  static std::uint64_t add_external(OutputFile& data, const NewPlace& place) {
    const std::uint64_t offset = (data.size + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
    data.pieces.push_back({offset, TensorPiece{place.tensor, place.size}});
    data.size = offset + place.size;
    return offset;
  }

  const Model& model_;
  const Graph& graph_;
  std::vector<std::ptrdiff_t> tensors_;
  const WriteOptions& options_;
  std::vector<std::size_t> encoded_;
};

class Writer final : public FormatWriter {
 public:
  std::string_view name() const override { return "onnx"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::array<std::string_view, 1> kExtensions = {".onnx"};
    return kExtensions;
  }

  std::vector<std::string> check(const Model& model, const WriteOptions& options) const override {
    const Graph* graph = graph_of(model);
    if (!graph)
      return {
          fmt::format("an ONNX file holds the graph that computes with the weights, and {} has none; give the ONNX "
                      "model, and these weights by --weights",
                      model.format)};
    std::vector<std::string> problems;
    if (options.folder) problems.push_back("an ONNX model is written as a file: give a name that ends in .onnx");
    if (options.shard_size > 0) problems.push_back("ONNX files have no shards: leave --shard-size away");
    if (!same_metadata(model.metadata, graph->metadata))
      problems.push_back("metadata of ONNX files cannot be edited yet: leave --set, --set-file and --unset away");
    const auto tensors = tensors_of(model, *graph);
    std::size_t found = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Weight& weight = graph->weights[i];
      if (tensors[i] < 0) {
        problems.push_back(fmt::format("the graph needs the tensor '{}', which is left out", printable(weight.name)));
        continue;
      }
      ++found;
      for (std::string& problem : problems_of(*graph, weight, model.tensors[static_cast<std::size_t>(tensors[i])]))
        problems.push_back(std::move(problem));
    }
    if (found < model.tensors.size())
      problems.push_back(fmt::format("{} tensors are none of the graph's", model.tensors.size() - found));
    return problems;
  }

  Layout plan(const Model& model, const WriteOptions& options) const override {
    check_total_bytes(model);
    Planner planner(model, options);
    Layout layout = planner.plan(~std::uint64_t{0});
    if (layout.files.back().size > kMaxModel) layout = planner.plan(kMinExternal);
    return layout;
  }
};

}  // namespace
}  // namespace onnx

const FormatWriter& onnx_writer() {
  static const onnx::Writer writer;
  return writer;
}

}  // namespace wconv
