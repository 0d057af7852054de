#include <algorithm>
#include <unordered_map>

#include "core/list_text.h"
#include "core/nearest.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

constexpr std::size_t kNamed = 5;  // in one message

[[noreturn]] void fail_unknown(const Model& model, const Model& weights, const std::vector<std::string>& unknown) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : model.tensors) names.push_back(tensor.info.name);
  throw Error(ErrorCode::kUsage,
              fmt::format("{} of the {} tensors are not in {}: {}{}", unknown.size(), weights.tensors.size(),
                          printable(model.path), quoted_names(unknown, kNamed), nearest_hint(unknown.front(), names)))
      .in_file(weights.path);
}

void replace(Tensor& tensor, const Tensor& by) {
  if (by.info.shape != tensor.info.shape)
    throw Error(ErrorCode::kUsage, fmt::format("it has the shape [{}], the model has [{}]",
                                               fmt::join(by.info.shape, ","), fmt::join(tensor.info.shape, ",")))
        .in_tensor(by.info.name);
  tensor.info.dtype = by.info.dtype;
  tensor.data = by.data;
  tensor.source_file = by.source_file;
  tensor.source_offset = by.source_offset;
  tensor.source_dtype = by.source_dtype;
  tensor.transforms = by.transforms;
  tensor.transforms.push_back({"replace", {}});
}

}  // namespace

Model replace_weights(Model model, const Model& weights) {
  check_none_refused(weights);
  std::unordered_map<std::string_view, Tensor*> by_name;
  for (Tensor& tensor : model.tensors) by_name.emplace(tensor.info.name, &tensor);
  std::vector<std::string> unknown;
  for (const Tensor& by : weights.tensors) {
    const auto found = by_name.find(by.info.name);
    if (found == by_name.end()) {
      unknown.push_back(by.info.name);
      continue;
    }
    try {
      replace(*found->second, by);
    } catch (Error& error) {
      throw error.in_file(weights.path);
    }
  }
  if (!unknown.empty()) fail_unknown(model, weights, unknown);
  model.files.insert(model.files.end(), weights.files.begin(), weights.files.end());
  model.checks.insert(model.checks.end(), weights.checks.begin(), weights.checks.end());
  return model;
}

}  // namespace wconv
