// Names of files that are parts of one model: "STEM-00002-of-00003.safetensors".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wconv {

struct PartName {
  std::string stem;  // with the folder, where the name had one
  std::uint64_t number = 0, count = 0;
  std::string ending;  // ".safetensors"
};

// Numbers have five digits; a .zst at the end is read over.
std::optional<PartName> parse_part_name(std::string_view name);
// `number` counts from 1.
std::string part_name(std::string_view stem, std::uint64_t number, std::uint64_t count, std::string_view ending);

}  // namespace wconv
