// A model cut into several GGUF files.
#pragma once

#include <vector>

#include "formats/gguf/header.h"

namespace wconv::gguf {

// All parts of the model that `first` begins, in order; just `first` where it is whole. The others are looked for
// beside it, by name. Throws Error(kUsage) when `first` is a later part, Error(kMissing) for parts that are not there,
// Error(kCorrupt) for parts that don't belong together.
std::vector<Header> open_parts(Header first);

}  // namespace wconv::gguf
