// One TensorProto: what it is and where its bytes are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/external_data.h"
#include "formats/onnx/wire.h"
#include "wconv/tensor.h"

namespace wconv::onnx {

// What all tensors of one file share.
struct TensorContext {
  std::shared_ptr<const File> file;
  ByteReader& reader;
  ExternalFiles& external;
};

struct ParsedTensor {
  std::string name;  // as the message has it
  std::uint64_t data_type = 0;
  std::vector<std::uint64_t> shape;
  std::uint64_t at = 0;          // byte offset of the message
  std::optional<Tensor> tensor;  // without its name; none: strings, or `refused`
  std::uint64_t strings = 0;     // of a tensor of strings
  std::string refused;           // why these numbers cannot be read; empty: they can, or are strings
};

// Adds the current field of the cursor, a dimension or packed ones. Throws Error(kCorrupt) for one below 0.
void read_dims(ByteReader& reader, const Cursor& cursor, std::vector<std::uint64_t>& dims);

// Proves the whole message: type, dims, exactly one place of data, of the right size. `name`: what to call it in
// errors where the message has none. Throws Error(kCorrupt | kUnsupported | kMissing) with tensor and offset.
ParsedTensor parse_tensor(const TensorContext& context, const Field& message, std::string_view name);

}  // namespace wconv::onnx
