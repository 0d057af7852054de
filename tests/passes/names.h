// Models of which only the names matter.
#pragma once

#include <string>
#include <vector>

#include "support/support.h"

namespace wconv::test {

inline Model model_of(const std::vector<std::string>& names) {
  std::vector<TensorSpec> specs;
  for (const std::string& name : names) specs.push_back({name, DType::kF32, {1}, std::vector<std::byte>(4)});
  return make_model(specs);
}

inline std::string names_of(const Model& model) {
  std::string names;
  for (const Tensor& tensor : model.tensors) names += (names.empty() ? "" : " ") + tensor.info.name;
  return names;
}

}  // namespace wconv::test
