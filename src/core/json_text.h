// JSON text of single values, for documents that are written as a stream.
#pragma once

#include <string>
#include <string_view>

namespace wconv {

// A quoted JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// Shortest text that reads back as the same number; non-finite numbers become strings ("nan", "inf", "-inf").
std::string json_number(double number);

}  // namespace wconv
