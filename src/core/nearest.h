// "Did you mean": the closest of many names.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace wconv {

// The name with the fewest edits to `text` (insertions, deletions, changes), fewer than `limit`; empty when there is
// none.
std::string_view nearest_name(std::string_view text, const std::vector<std::string_view>& names,
                              std::size_t limit = std::numeric_limits<std::size_t>::max());

// "; the nearest name is 'NAME'", or empty.
std::string nearest_hint(std::string_view text, const std::vector<std::string_view>& names);

}  // namespace wconv
