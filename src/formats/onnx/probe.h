// Telling ONNX from other files by its first bytes: protobuf has no magic number.
#pragma once

#include <cstddef>
#include <span>

namespace wconv::onnx {

// True when the bytes begin with fields of ModelProto, of their types and with plausible values, up to the graph or to
// a text that goes on behind them.
bool looks_like_model(std::span<const std::byte> head);

}  // namespace wconv::onnx
