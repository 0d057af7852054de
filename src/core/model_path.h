// Paths that come out of model files are hostile.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "wconv/file.h"

namespace wconv {

// Throws Error(kCorrupt) unless `path` is relative, names something below its folder ("sub/x" is fine) and is free of
// "..", NUL and backslashes. `field` says where it was found.
void check_relative_path(std::string_view path, std::string_view field);

// True when `path`, with all links followed, lies in `folder` (its links followed too), or is a file of the same model
// in a Hugging Face cache: snapshots/<revision>/…/NAME → blobs/<hash> beside snapshots.
bool stays_in_model(const std::string& folder, const std::string& path);

// Opens the file that the model file `from` refers to as `path`. Stricter than the two above, for data that becomes
// part of an output: below the folder no symbolic links, and no file of several hard links. In a Hugging Face cache,
// links to the same model's blobs are right. Where only `path`.zst is there, that is unpacked. Throws Error(kMissing)
// where there is none, Error(kCorrupt) otherwise.
std::shared_ptr<const File> open_referenced(const File& from, const std::string& path, std::string_view field);

}  // namespace wconv
