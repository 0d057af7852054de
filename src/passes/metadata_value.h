// Typed metadata from the text that a person writes.
#pragma once

#include <optional>
#include <string_view>

#include "wconv/model.h"

namespace wconv::passes {

// Integers and floats in decimal; bools as true, false, 1 or 0; strings as they are. Throws Error(kUsage), naming
// `key`, when the text isn't of that type or the number is out of its range.
MetaValue parse_value(std::string_view key, MetaType type, std::string_view text);

// A JSON array, "[1, 2]", of elements of one type (no arrays within).
MetaValue parse_array(std::string_view key, MetaType element, std::string_view text);

struct SpecifiedType {
  MetaType type, element;  // element: of an array
};
// The type that GGUF's specification gives a key of its own, where that is not a string.
std::optional<SpecifiedType> specified_type(std::string_view key);

}  // namespace wconv::passes
