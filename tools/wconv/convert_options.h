// The options of `wconv convert`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tool.h"
#include "wconv/format.h"
#include "wconv/pass.h"

namespace wconv::tool {

struct ConvertOptions {
  std::string input, output, to, dtype, weights, key, shard_size, compress, on_overflow = "error";
  std::vector<std::string> tensor_dtype, include, exclude, strip_prefix, rename;
  MetadataEdits metadata;
  bool force = false, dry_run = false, no_manifest = false;
};

void add_options(CLI::App& verb, ConvertOptions& options);

// The options that shape the bytes, resolved, as names and JSON values; paths are left out, for the manifest is the
// same on every machine.
std::vector<std::pair<std::string, std::string>> resolved(const ConvertOptions& options, const FormatWriter& writer);

}  // namespace wconv::tool
