// ONNX models: protobuf with weights inside or in files beside them. docs/formats/onnx.md.
#pragma once

#include "wconv/format.h"

namespace wconv {

const FormatReader& onnx_reader();
const FormatWriter& onnx_writer();

}  // namespace wconv
