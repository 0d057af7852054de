// Building UTF-8 from code points. Checking it is is_utf8() in wconv/error.h.
#pragma once

#include <cstdint>
#include <string>

namespace wconv {

// Appends one character (RFC 3629). False, and nothing appended, for surrogates and beyond U+10FFFF.
bool append_utf8(std::string& out, std::uint32_t code);

}  // namespace wconv
