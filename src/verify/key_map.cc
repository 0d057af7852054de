#include "verify/key_map.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

namespace wconv::verify_detail {
namespace {

// More unmatched names than this are only looked at for a prefix on one side.
constexpr std::size_t kMaxSuffixSearch = 20'000;
constexpr std::size_t kMaxRules = 8;
constexpr std::size_t kMaxCuts = 16;  // a hostile name may hold a million dots

using NameIndex = std::unordered_map<std::string_view, std::size_t>;
// prefix in the reference, prefix in the candidate → how many names it explains
using Votes = std::map<std::pair<std::string_view, std::string_view>, std::size_t>;

NameIndex index_names(const Model& model, const std::vector<std::size_t>& tensors) {
  NameIndex names;
  for (const std::size_t i : tensors) names.emplace(model.tensors[i].info.name, i);
  return names;
}

// Calls use(prefix with its dot, rest) for each way to cut `name` behind one of its first dots, the shortest prefix
// first, until it returns true.
template <typename Use>
void for_each_cut(std::string_view name, const Use& use) {
  std::size_t dot = name.find('.');
  for (std::size_t cuts = 0; dot != std::string_view::npos && cuts < kMaxCuts; ++cuts, dot = name.find('.', dot + 1)) {
    if (use(name.substr(0, dot + 1), name.substr(dot + 1))) return;
  }
}

class Matcher {
 public:
  Matcher(const Model& reference, const Model& candidate) : reference_(reference), candidate_(candidate) {}

  KeyMap run() {
    match_equal();
    while (!map_.missing.empty() && !map_.unexpected.empty() && map_.rules.size() < kMaxRules && match_by_prefix()) {
    }
    std::sort(map_.pairs.begin(), map_.pairs.end());
    return std::move(map_);
  }

 private:
  const std::string& reference_name(std::size_t i) const { return reference_.tensors[i].info.name; }
  const std::string& candidate_name(std::size_t i) const { return candidate_.tensors[i].info.name; }

  void match_equal() {
    std::vector<std::size_t> all(candidate_.tensors.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const NameIndex names = index_names(candidate_, all);
    std::vector<bool> taken(all.size());
    for (std::size_t i = 0; i < reference_.tensors.size(); ++i) {
      const auto found = names.find(reference_name(i));
      if (found == names.end()) {
        map_.missing.push_back(i);
      } else {
        map_.pairs.emplace_back(i, found->second);
        taken[found->second] = true;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!taken[i]) map_.unexpected.push_back(i);
    }
  }

  // Finds the prefix rule that explains most of what is left, and applies it. False: there is none.
  bool match_by_prefix() {
    const NameIndex missing = index_names(reference_, map_.missing),
                    unexpected = index_names(candidate_, map_.unexpected);
    Votes votes;
    for (const std::size_t i : map_.unexpected) {
      for_each_cut(candidate_name(i), [&](std::string_view prefix, std::string_view rest) {
        if (missing.contains(rest)) ++votes[{{}, prefix}];
        return false;
      });
    }
    for (const std::size_t i : map_.missing) {
      for_each_cut(reference_name(i), [&](std::string_view prefix, std::string_view rest) {
        if (unexpected.contains(rest)) ++votes[{prefix, {}}];
        return false;
      });
    }
    if (votes.empty()) vote_for_two_prefixes(votes);
    if (votes.empty()) return false;
    const auto best =
        std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return apply({std::string(best->first.first), std::string(best->first.second)}, missing);
  }

  // "encoder.0.weight" against "backbone.0.weight", of one shape; believed when two names or more agree.
  void vote_for_two_prefixes(Votes& votes) const {
    if (map_.missing.size() + map_.unexpected.size() > kMaxSuffixSearch) return;
    std::unordered_map<std::string_view, std::vector<std::pair<std::size_t, std::string_view>>> by_rest;
    for (const std::size_t i : map_.missing) {
      for_each_cut(reference_name(i), [&](std::string_view prefix, std::string_view rest) {
        by_rest[rest].emplace_back(i, prefix);
        return false;
      });
    }
    for (const std::size_t i : map_.unexpected) {
      for_each_cut(candidate_name(i), [&](std::string_view prefix, std::string_view rest) {
        const auto found = by_rest.find(rest);
        if (found == by_rest.end() || found->second.size() != 1) return false;
        const auto& [tensor, reference_prefix] = found->second[0];
        if (reference_.tensors[tensor].info.shape != candidate_.tensors[i].info.shape) return false;
        ++votes[{reference_prefix, prefix}];
        return true;
      });
    }
    std::erase_if(votes, [](const auto& vote) { return vote.second < 2; });
  }

  bool apply(PrefixRule rule, NameIndex missing) {
    std::vector<std::size_t> left;
    for (const std::size_t i : map_.unexpected) {
      const std::string& name = candidate_name(i);
      const auto partner = name.starts_with(rule.candidate_prefix)
                               ? missing.find(rule.reference_prefix + name.substr(rule.candidate_prefix.size()))
                               : missing.end();
      if (partner == missing.end()) {
        left.push_back(i);
        continue;
      }
      map_.pairs.emplace_back(partner->second, i);
      missing.erase(partner);
      ++rule.count;
    }
    if (rule.count == 0) return false;
    map_.unexpected = std::move(left);
    std::erase_if(map_.missing, [&](std::size_t i) { return !missing.contains(reference_name(i)); });
    map_.rules.push_back(std::move(rule));
    return true;
  }

  const Model& reference_;
  const Model& candidate_;
  KeyMap map_;
};

}  // namespace

KeyMap match_keys(const Model& reference, const Model& candidate) { return Matcher(reference, candidate).run(); }

}  // namespace wconv::verify_detail
