#include "core/nearest.h"

#include <algorithm>

#include "wconv/error.h"

namespace wconv {
namespace {

// Levenshtein distance, or `limit` where it is not less.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) >= limit) return limit;
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0], least = row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] != b[j] ? 1 : 0);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
      least = std::min(least, row[j + 1]);
    }
    if (least >= limit) return limit;
  }
  return std::min(row.back(), limit);
}

}  // namespace

std::string_view nearest_name(std::string_view text, const std::vector<std::string_view>& names, std::size_t limit) {
  constexpr std::size_t kLongest = 256;  // distances of longer texts help nobody
  text = text.substr(0, kLongest);
  std::string_view best;
  std::size_t least = limit;
  for (std::string_view name : names) {
    const std::size_t distance = edit_distance(text, name.substr(0, kLongest), least);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::string nearest_hint(std::string_view text, const std::vector<std::string_view>& names) {
  if (names.empty()) return "";
  return fmt::format("; the nearest name is '{}'", printable(nearest_name(text, names)));
}

}  // namespace wconv
