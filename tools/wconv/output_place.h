// Where `wconv convert` writes, and in which format.
#pragma once

#include <string>

#include "convert_options.h"
#include "wconv/format.h"
#include "wconv/layout.h"

namespace wconv::tool {

struct Target {
  const FormatWriter* writer = nullptr;
  bool folder = false;
};

// --to decides, then OUT's extension; a name without an extension (or ending in '/') is a Hugging Face folder. Throws
// Error(kUsage).
Target resolve_target(const ConvertOptions& options);

struct OutputPlace {
  std::string path;       // without a slash at its end
  std::string prefix;     // of the paths of the output's files
  std::string file_name;  // the last component of the path; empty for a folder
  int zstd_level = 0;     // 0: not compressed
  WriteOptions write;     // its file_name has no .zst
};

OutputPlace place_of(const ConvertOptions& options, const Target& target);

// A file among shards has a manifest of the name that all of them share.
std::string manifest_of(const OutputPlace& place, const Layout& layout);

}  // namespace wconv::tool
