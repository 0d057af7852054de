// Which tensor of one model is which tensor of the other.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "wconv/model.h"

namespace wconv::verify_detail {

// reference_prefix + X is candidate_prefix + X for `count` names.
struct PrefixRule {
  std::string reference_prefix, candidate_prefix;
  std::size_t count = 0;
};

// Indexes into the two models' tensors.
struct KeyMap {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  // ascending by the reference's
  std::vector<std::size_t> missing, unexpected;            // without a partner; ascending
  std::vector<PrefixRule> rules;                           // that made pairs of different names
};

// Pairs equal names first, then those that differ by a prefix that ends at a '.'.
KeyMap match_keys(const Model& reference, const Model& candidate);

}  // namespace wconv::verify_detail
