// Lists of names in messages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace wconv {

// "'a', 'b' and 7 more": the first `shown` names in quotes.
std::string quoted_names(const std::vector<std::string>& names, std::size_t shown);

}  // namespace wconv
