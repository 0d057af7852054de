// GGUF, the container of ggml and llama.cpp: versions 1 to 3 are read, version 3 is written. docs/formats/gguf.md.
#pragma once

#include "wconv/format.h"

namespace wconv {

const FormatReader& gguf_reader();
const FormatWriter& gguf_writer();

}  // namespace wconv
