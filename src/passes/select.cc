#include "passes/select.h"

#include <algorithm>

#include "core/nearest.h"
#include "wconv/error.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

// One pattern element at `p` against `c`; `next` is where the following element begins. A set is "[abc]", "[a-z]" or
// "[!abc]"; a "[" without its "]" stands for itself.
bool match_one(std::string_view pattern, std::size_t p, char c, std::size_t& next) {
  next = p + 1;
  if (pattern[p] == '?') return true;
  std::size_t close = pattern[p] == '[' ? pattern.find(']', p + 2) : std::string_view::npos;
  if (close == std::string_view::npos) return pattern[p] == c;
  next = close + 1;
  std::string_view set = pattern.substr(p + 1, close - p - 1);
  const bool negated = set.size() > 1 && set.front() == '!';
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found |= static_cast<unsigned char>(set[i]) <= static_cast<unsigned char>(c) &&
               static_cast<unsigned char>(c) <= static_cast<unsigned char>(set[i + 2]);
      i += 2;
    } else {
      found |= set[i] == c;
    }
  }
  return found != negated;
}

// Names with brackets match themselves.
bool matches_name(std::string_view pattern, std::string_view name) {
  return name == pattern || glob_match(pattern, name);
}

}  // namespace

// Remembers the last '*' only: a later one makes the choices of an earlier one final. Linear in most cases, and at
// worst pattern times name.
bool glob_match(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, star_n = 0;
  while (n < name.size()) {
    std::size_t next = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_n = n;
    } else if (p < pattern.size() && match_one(pattern, p, name[n], next)) {
      p = next;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_n;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

namespace passes {

std::vector<bool> matching(const Model& model, std::string_view pattern) {
  std::vector<bool> matches(model.tensors.size());
  for (std::size_t i = 0; i < matches.size(); ++i) matches[i] = matches_name(pattern, model.tensors[i].info.name);
  const bool any = std::find(matches.begin(), matches.end(), true) != matches.end() ||
                   std::any_of(model.refused.begin(), model.refused.end(),
                               [&](const RefusedTensor& tensor) { return matches_name(pattern, tensor.name); });
  if (any) return matches;
  std::vector<std::string_view> names;
  for (const Tensor& tensor : model.tensors) names.push_back(tensor.info.name);
  fail(ErrorCode::kUsage, "no tensor matches '{}'{}", printable(pattern), nearest_hint(pattern, names));
}

}  // namespace passes

namespace {

// Tensors that cannot be read are named by the same patterns; one that would be kept ends the conversion.
void drop_refused(Model& model, const std::vector<std::string>& include, const std::vector<std::string>& exclude) {
  const auto any = [](const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches_name(pattern, name); });
  };
  std::erase_if(model.refused, [&](const RefusedTensor& tensor) {
    return any(exclude, tensor.name) || (!include.empty() && !any(include, tensor.name));
  });
  if (!model.refused.empty())
    check_none_refused(model, fmt::format("; --exclude '{}' leaves it out", printable(model.refused.front().name)));
}

}  // namespace

Model select_tensors(Model model, const std::vector<std::string>& include, const std::vector<std::string>& exclude) {
  std::vector<bool> keep(model.tensors.size(), include.empty());
  for (const std::string& pattern : include) {
    const std::vector<bool> matches = passes::matching(model, pattern);
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (matches[i]) keep[i] = true;
  }
  for (const std::string& pattern : exclude) {
    const std::vector<bool> matches = passes::matching(model, pattern);
    for (std::size_t i = 0; i < keep.size(); ++i)
      if (matches[i]) keep[i] = false;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) model.tensors[kept] = std::move(model.tensors[i]);
    ++kept;
  }
  model.tensors.resize(kept);
  drop_refused(model, include, exclude);
  return model;
}

}  // namespace wconv
