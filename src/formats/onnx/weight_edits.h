// What changes in an ONNX file when a weight gets other values, another type or another file.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "formats/onnx/rewrite.h"

namespace wconv::onnx {

// Where the data goes.
struct NewPlace {
  std::size_t tensor = 0;    // of the model that is written
  std::uint64_t size = 0;    // bytes
  std::string location;      // of the external file; empty: into the model itself
  std::uint64_t offset = 0;  // in the external file
};

class WeightEditor {
 public:
  WeightEditor(Rewrite& rewrite, ByteReader& reader) : rewrite_(rewrite), reader_(reader) {}

  // The TensorProto of `weight` holds data of `dtype` at `place`. Where the type is another, the graph computes as
  // before: the tensor gets kStoredEnding, and a Cast node gives the value of its name in the old type.
  void edit(const Weight& weight, DType dtype, const NewPlace& place);

 private:
  void edit_tensor(const Weight& weight, DType dtype, const NewPlace& place, const std::string& new_name);
  void rename_output(std::ptrdiff_t node, const std::string& name);
  void edit_input(const Weight& weight, DType dtype, const std::string& stored);
  void edit_type(std::ptrdiff_t parent, const Field& type, DType dtype);
  const std::unordered_map<std::string, Field>& inputs_of(std::ptrdiff_t graph);

  Rewrite& rewrite_;
  ByteReader& reader_;
  std::unordered_map<std::ptrdiff_t, std::unordered_map<std::string, Field>> inputs_;  // of each graph, by name
};

// The lowest version of ai.onnx whose Cast knows the type.
std::uint64_t cast_opset(DType dtype);

}  // namespace wconv::onnx
