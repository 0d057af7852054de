// Conversions between binary32, binary16 and bfloat16 on bit patterns: the specification that every kernel follows.
//
// All round to nearest, ties to even. NaN stays NaN with its sign; a narrower NaN keeps the top bits of the payload,
// and gets the quiet bit only where nothing of the payload would be left. So narrow → wide → narrow gives every code
// back.
#pragma once

#include <bit>
#include <cstdint>

namespace wconv::kernels {

static_assert(std::endian::native == std::endian::little, "weights are little-endian; so must the machine be");

constexpr std::uint32_t kF32Infinity = 0x7f80'0000;
// The lowest magnitudes that round to infinity.
constexpr std::uint32_t kF32OverflowsBf16 = 0x7f7f'8000;
constexpr std::uint32_t kF32OverflowsF16 = 0x477f'f000;  // 65520

constexpr std::uint32_t bf16_to_f32_bits(std::uint16_t code) { return std::uint32_t{code} << 16; }

constexpr std::uint16_t f32_bits_to_bf16(std::uint32_t bits) {
  if ((bits & 0x7fff'ffff) > kF32Infinity)
    return static_cast<std::uint16_t>((bits >> 16) | ((bits & 0x007f'0000) == 0 ? 0x0040u : 0u));
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr std::uint32_t f16_to_f32_bits(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000u) << 16, exponent = (code >> 10) & 31u, mantissa = code & 0x3ffu;
  if (exponent == 31) return sign | kF32Infinity | (mantissa << 13);
  if (exponent != 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa == 0) return sign;
  const auto top = static_cast<std::uint32_t>(std::bit_width(mantissa));  // value = mantissa · 2^-24
  return sign | ((top + 102) << 23) | ((mantissa << (24 - top)) & 0x007f'ffff);
}

constexpr std::uint16_t f32_bits_to_f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fff'ffff;
  std::uint32_t code = 0;
  if (magnitude > kF32Infinity) {
    const std::uint32_t payload = (magnitude >> 13) & 0x3ff;
    code = 0x7c00 | (payload != 0 ? payload : 0x200);
  } else if (magnitude >= kF32OverflowsF16) {
    code = 0x7c00;
  } else if (magnitude >= 0x3880'0000) {  // 2^-14: normal
    code = (magnitude - 0x3800'0000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude > 0x3300'0000) {  // more than 2^-25, which ties to zero
    const std::uint32_t shift = 126 - (magnitude >> 23), significand = (magnitude & 0x007f'ffff) | 0x0080'0000;
    code = (significand + (1u << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | code);
}

}  // namespace wconv::kernels
