// One walk over an ONNX file: every tensor, wherever it hides, and what is to be said about the model.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/collector.h"
#include "formats/onnx/value_types.h"

namespace wconv::onnx {

struct Contents {
  std::vector<Found> found;  // in the file's order
  std::vector<MessagePlace> messages;
  std::vector<SparseShape> sparse;

  std::uint64_t ir_version = 0, model_version = 0;
  std::string producer_name, producer_version, domain, doc_string, graph_name, graph_doc_string;
  std::vector<std::pair<std::string, std::uint64_t>> opsets;
  std::vector<std::pair<std::string, std::string>> properties;  // metadata_props
  std::vector<ValueInfo> inputs, outputs;                       // of the main graph
  std::size_t functions = 0;
  std::set<std::string> stored_names;      // outputs that end in kStoredEnding
  std::set<std::string> custom_operators;  // "domain:Operator" of domains that are not the standard's
};

// Throws Error(kCorrupt | kUnsupported | kMissing) with the byte offset, and the tensor where it is one.
Contents walk_model(const TensorContext& context);

}  // namespace wconv::onnx
