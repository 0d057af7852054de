#include "core/utf8.h"

#include <array>

namespace wconv {

bool append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  if (code < 0x80) {
    out += static_cast<char>(code);
    return true;
  }
  static constexpr std::array<unsigned, 4> kLead = {0, 0xC0, 0xE0, 0xF0};
  const unsigned tails = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>(kLead[tails] | code >> (6 * tails));
  for (unsigned i = tails; i-- > 0;) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  return true;
}

}  // namespace wconv
