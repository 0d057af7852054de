// Paths that come out of model files are hostile.
#pragma once

#include <string>
#include <string_view>

namespace wconv {

// Throws Error(kCorrupt) unless `path` is relative, names something below its folder ("sub/x" is fine) and is free of
// "..", NUL and backslashes. `field` says where it was found.
void check_relative_path(std::string_view path, std::string_view field);

// True when `path`, with all links followed, lies in `folder` (its links followed too), or is a file of the same model
// in a Hugging Face cache: snapshots/<revision>/…/NAME → blobs/<hash> beside snapshots.
bool stays_in_model(const std::string& folder, const std::string& path);

}  // namespace wconv
