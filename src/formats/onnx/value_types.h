// What a graph declares of its inputs and outputs, as text.
#pragma once

#include <string>

#include "formats/onnx/wire.h"

namespace wconv::onnx {

inline constexpr unsigned kMaxDepth = 100;  // of messages in messages, as protobuf's own parsers have it

struct ValueInfo {
  std::string name;
  std::string type;  // "F32[batch,3,224,224]", "SEQUENCE(I64[?])"; empty: none is declared
};
ValueInfo read_value_info(ByteReader& reader, const Field& message);

}  // namespace wconv::onnx
