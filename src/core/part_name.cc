#include "core/part_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/zstd_file.h"

namespace wconv {

std::optional<PartName> parse_part_name(std::string_view name) {
  constexpr std::string_view kForm = "-#####-of-#####";
  constexpr std::size_t kDigits = 5;
  name = without_zst(name);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot < kForm.size() || name.find('/', dot) != std::string_view::npos)
    return std::nullopt;
  const std::size_t begin = dot - kForm.size();
  const std::string_view numbers = name.substr(begin, kForm.size());
  const bool fits = std::equal(kForm.begin(), kForm.end(), numbers.begin(),
                               [](char form, char c) { return form == '#' ? c >= '0' && c <= '9' : c == form; });
  if (!fits) return std::nullopt;
  PartName part{std::string(name.substr(0, begin)), 0, 0, std::string(name.substr(dot))};
  std::from_chars(&numbers[1], &numbers[1] + kDigits, part.number);
  std::from_chars(&numbers[kForm.size() - kDigits], &numbers[kForm.size() - 1] + 1, part.count);
  return part;
}

std::string part_name(std::string_view stem, std::uint64_t number, std::uint64_t count, std::string_view ending) {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, ending);
}

}  // namespace wconv
