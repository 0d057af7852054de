// Where an ONNX file holds its weights: what the reader finds and the writer needs to put others in their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

struct Weight {
  std::string name;  // unique in the model
  Role role = Role::kInitializer;
  std::ptrdiff_t message = -1;  // TensorProto; of kConstantList the AttributeProto
  std::ptrdiff_t node = -1;     // NodeProto of a constant or attribute
  std::ptrdiff_t graph = -1;    // GraphProto or FunctionProto around it
};

class Graph final : public SourceGraph {
 public:
  std::shared_ptr<const File> file;
  std::vector<MessagePlace> messages;
  std::vector<Weight> weights;
  std::uint64_t ir_version = 0, opset = 0;  // opset: of ai.onnx; 0: none
  bool external = false;                    // some weights lie in other files
};

}  // namespace wconv::onnx
