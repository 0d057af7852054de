// Globs over the tensors of a model.
#pragma once

#include <string_view>
#include <vector>

#include "wconv/model.h"

namespace wconv::passes {

// One flag for each tensor: does it match, or is it the very name? Throws Error(kUsage), with the nearest name, when
// none does.
std::vector<bool> matching(const Model& model, std::string_view pattern);

}  // namespace wconv::passes
