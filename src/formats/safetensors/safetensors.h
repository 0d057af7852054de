// safetensors: u64 header length, JSON header, tensor data. https://github.com/huggingface/safetensors
#pragma once

#include "wconv/format.h"

namespace wconv {

const FormatReader& safetensors_reader();
const FormatWriter& safetensors_writer();

}  // namespace wconv
