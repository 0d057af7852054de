// Where an ONNX file holds its weights: what the reader finds and the writer needs to put others in their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/tensor_proto.h"
#include "wconv/model.h"

namespace wconv::onnx {

// A message that holds weights, somewhere inside.
struct MessagePlace {
  std::ptrdiff_t parent = -1;  // index of the enclosing message; -1: this is the model
  std::uint64_t length_at = 0, begin = 0, end = 0;
};

enum class Role : std::uint8_t {
  kInitializer,
  kSparseValues,
  kSparseIndices,
  kConstant,      // the attribute `value` of a Constant node
  kConstantList,  // its value_float, value_floats, value_int or value_ints
  kAttribute,     // of another node
};

// A weight that is stored in another type than the graph computes in has this ending to its name; a Cast node gives the
// name without it. The reader knows such pairs, so that weights keep their names from one rewriting to the next.
inline constexpr std::string_view kStoredEnding = "__wconv";

struct Weight {
  std::string name;   // unique in the model
  std::string value;  // the name in its graph; without kStoredEnding
  Role role = Role::kInitializer;
  std::ptrdiff_t message = -1;  // TensorProto; of kConstantList the AttributeProto
  std::ptrdiff_t node = -1;     // NodeProto of a constant or attribute
  std::ptrdiff_t graph = -1;    // GraphProto or FunctionProto around it
  bool castable = false;        // a Cast node can follow it: an initializer or Constant of a graph that is run
  bool through_cast = false;    // one follows it
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::shared_ptr<const TensorData> data;
  bool external = false;
};

class Graph final : public SourceGraph {
 public:
  std::shared_ptr<const File> file;
  std::vector<MessagePlace> messages;  // an enclosing message comes before those in it
  std::vector<Weight> weights;         // in the file's order
  std::set<std::string> stored_names;  // values that end in kStoredEnding
  Metadata metadata;
  std::uint64_t ir_version = 0, opset = 0;  // opset: of ai.onnx; 0: none
};

}  // namespace wconv::onnx
