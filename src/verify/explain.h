// Saying in sentences why two models differ.
#pragma once

#include <string>
#include <vector>

#include "verify/key_map.h"
#include "wconv/verify.h"

namespace wconv::verify_detail {

std::vector<std::string> explain_keys(const Model& reference, const Model& candidate, const KeyMap& keys);
// `same_flat`: for each tensor of another shape but as many elements, whether the values are the same in order.
std::vector<std::string> explain_tensors(const std::vector<TensorComparison>& tensors,
                                         const std::vector<bool>& same_flat, bool keys_only);

}  // namespace wconv::verify_detail
