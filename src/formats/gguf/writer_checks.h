// What GGUF can't hold.
#pragma once

#include <string>
#include <vector>

#include "wconv/model.h"

namespace wconv::gguf {

// One sentence for each problem; kinds that repeat are summarised after 20.
std::vector<std::string> check_model(const Model& model);

}  // namespace wconv::gguf
