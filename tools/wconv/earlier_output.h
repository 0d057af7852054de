// What an earlier output of the same name left beside a new one: an index that names other shards would be read
// instead.
#pragma once

#include <string>
#include <vector>

#include "wconv/format.h"
#include "wconv/layout.h"

namespace wconv::tool {

// Names of files in `folder` ("" or ending in '/') that belong to an earlier output called `name` and that this one,
// write.file_name when unpacked, does not write: of safetensors the index of shards, the shards it names and the file
// that is not cut into shards; of ONNX the external data; the manifest `manifest` (empty: this output writes one). The
// index comes first. Empty for an output that is a folder.
std::vector<std::string> earlier_output(const std::string& folder, const FormatWriter& writer,
                                        const WriteOptions& write, const std::string& name, const Layout& layout,
                                        const std::string& manifest);

}  // namespace wconv::tool
