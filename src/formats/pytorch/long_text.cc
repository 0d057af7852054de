#include "formats/pytorch/long_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace wconv::pytorch {
namespace {

std::string decimal_text(std::span<const std::byte> bytes) {
  const bool negative = (bytes.back() & std::byte{0x80}) != std::byte{0};
  std::vector<unsigned> limbs;  // base 10^9, the least first
  for (std::size_t i = bytes.size(); i-- > 0;) {
    std::uint64_t carry = std::to_integer<unsigned>(negative ? ~bytes[i] : bytes[i]);
    for (unsigned& limb : limbs) {
      carry += std::uint64_t{limb} << 8;
      limb = static_cast<unsigned>(carry % 1'000'000'000);
      carry /= 1'000'000'000;
    }
    if (carry > 0) limbs.push_back(static_cast<unsigned>(carry));
  }
  std::string text = limbs.empty() ? "0" : std::to_string(limbs.back());
  for (std::size_t i = limbs.empty() ? 0 : limbs.size() - 1; i-- > 0;) text += fmt::format("{:09}", limbs[i]);
  if (!negative) return text;
  std::size_t last = text.size();  // -(~n + 1)
  while (last-- > 0 && text[last] == '9') text[last] = '0';
  if (last < text.size()) {
    ++text[last];
  } else {
    text.insert(0, 1, '1');
  }
  return "-" + text;
}

std::string hexadecimal_text(std::span<const std::byte> bytes) {
  std::string text = "0x";
  for (std::size_t i = bytes.size(); i-- > 0;) text += fmt::format("{:02x}", std::to_integer<unsigned>(bytes[i]));
  return text;
}

}  // namespace

std::string long_text(std::span<const std::byte> bytes) {
  return bytes.size() < 1024 ? decimal_text(bytes) : hexadecimal_text(bytes);
}

}  // namespace wconv::pytorch
