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
// that is not cut into shards; of GGUF the parts and the file that is not split; of ONNX the external data; manifests
// other than `manifest` (empty: this output writes none). The index comes first. Empty for an output that is a folder.
std::vector<std::string> earlier_output(const std::string& folder, const FormatWriter& writer,
                                        const WriteOptions& write, const std::string& name, const Layout& layout,
                                        const std::string& manifest);

// Files in the folder `path`, an earlier output, that are not in the one that takes its place.
std::vector<std::string> lost_files(const std::string& path, const Layout& layout, const std::string& manifest);

}  // namespace wconv::tool
