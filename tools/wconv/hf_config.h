// config.json of a Hugging Face folder.
#pragma once

#include <string>

#include "wconv/dtype.h"
#include "wconv/file.h"

namespace wconv::tool {

// The text of `config` with its "torch_dtype" and "dtype" naming the new type of the weights; empty where it names
// neither or the type has no torch name. All else is kept, in order.
std::string config_with_dtype(const File& config, DType dtype);

}  // namespace wconv::tool
