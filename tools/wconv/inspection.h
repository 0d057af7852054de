// What `wconv inspect` knows about one model, and the two ways to print it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tool.h"
#include "wconv/stats.h"

namespace wconv::tool {

struct Inspection {
  const Model& model;
  std::vector<std::size_t> shown;  // indexes of the tensors to list
  bool filtered = false, stats = false, hash = false;
  ModelMeasures measures;  // of `shown`, where stats or hash
  std::string scan;        // JSON; empty: none was asked for
};

// Tensors, parameters (elements; those of tied tensors under each of their names), stored bytes (tied ones once).
struct Totals {
  std::uint64_t tensors = 0, parameters = 0, bytes = 0;
};
Totals totals_of(const Model& model);

// Names the tensor that a tied one shares its data with: the first of that data.
class Ties {
 public:
  explicit Ties(const Model& model);
  // Null: the tensor at `index` is the first of its data.
  const std::string* first_name(std::size_t index) const;

 private:
  const Model& model_;
  std::unordered_map<const TensorData*, std::size_t> first_;
};

void print_inspection_json(const Inspection& inspection);
void print_inspection_text(const Globals& globals, const Inspection& inspection);

}  // namespace wconv::tool
