// What `wconv convert --compress` does to the files of an output.
#pragma once

#include <string>
#include <string_view>

#include "wconv/layout.h"

namespace wconv::tool {

// The level of --compress zstd or zstd:LEVEL; 0 without the option, unless `output` ends in .zst, which asks for it
// too. Throws Error(kUsage).
int compression_level(const std::string& option, std::string_view output);

// Files with weights are compressed. A single one is called `file_name`, as the user said; so is the one that others
// stand beside, an ONNX model, where `file_name` ends in .zst. Those others, shards, and the files of a folder
// (`file_name` is empty) get the ending .zst. An index, and a model with external data, keep the plain names: they are
// right again once the rest is unpacked.
void compress_weights(Layout& layout, int level, const std::string& file_name);

}  // namespace wconv::tool
