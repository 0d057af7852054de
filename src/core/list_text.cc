#include "core/list_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace wconv {

std::string quoted_names(const std::vector<std::string>& names, std::size_t shown) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), shown));
  std::string text = fmt::format("'{}'", fmt::join(names.begin(), end, "', '"));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace wconv
