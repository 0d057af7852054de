#include "inspection.h"

#include <limits>
#include <unordered_set>

#include "wconv/byte_reader.h"

namespace wconv::tool {
namespace {

void add_saturating(std::uint64_t& sum, std::uint64_t number) {
  if (!checked_add(sum, number, sum)) sum = std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Totals totals_of(const Model& model) {
  Totals totals;
  std::unordered_set<const TensorData*> seen;
  for (const Tensor& tensor : model.tensors) {
    ++totals.tensors;
    add_saturating(totals.parameters, element_count(tensor.info.shape));
    if (seen.insert(tensor.data.get()).second) add_saturating(totals.bytes, tensor.data->size_bytes());
  }
  return totals;
}

Ties::Ties(const Model& model) : model_(model) {
  for (std::size_t i = 0; i < model.tensors.size(); ++i) first_.emplace(model.tensors[i].data.get(), i);
}

const std::string* Ties::first_name(std::size_t index) const {
  const Tensor& tensor = model_.tensors[index];
  const std::size_t first = first_.at(tensor.data.get());
  return first == index || tensor.data->size_bytes() == 0 ? nullptr : &model_.tensors[first].info.name;
}

}  // namespace wconv::tool
