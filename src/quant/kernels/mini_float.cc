#include "quant/kernels/mini_float.h"

#include <bit>

namespace wconv::kernels {
namespace {

constexpr std::uint64_t kExponentMask64 = 0x7ff0'0000'0000'0000, kMantissaMask64 = 0x000f'ffff'ffff'ffff;
constexpr std::uint32_t kNaN32 = 0x7fc0'0000;

std::uint64_t max_finite(const MiniFloat& format) {
  const std::uint64_t all_ones = (std::uint64_t{1} << (format.bits() - 1)) - 1;
  switch (format.special) {
    case Special::kIeee:
      return all_ones - (std::uint64_t{1} << format.mantissa_bits);
    case Special::kFn:
      return all_ones - 1;
    case Special::kFnuz:
    case Special::kFinite:
      break;
  }
  return all_ones;
}

std::uint64_t nan_code(const MiniFloat& format, std::uint64_t sign, std::uint64_t mantissa64) {
  const std::uint64_t all_ones = (std::uint64_t{1} << (format.bits() - 1)) - 1;
  if (format.special == Special::kFnuz) return all_ones + 1;
  if (format.special == Special::kFn) return sign | all_ones;
  const std::uint64_t payload = mantissa64 >> (52 - format.mantissa_bits);
  const std::uint64_t quiet = std::uint64_t{1} << (format.mantissa_bits - 1);
  return sign | (max_finite(format) + 1) | (payload != 0 ? payload : quiet);
}

// significand · 2^-shift, ties to even. significand < 2^53.
std::uint64_t round_shift(std::uint64_t significand, int shift) {
  if (shift > 54) return 0;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return (significand + half - 1 + ((significand >> shift) & 1)) >> shift;
}

}  // namespace

std::uint32_t encode_mini(const MiniFloat& format, double value, bool saturate, bool& overflow) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = (bits >> 63) << (format.bits() - 1), mantissa = bits & kMantissaMask64;
  const std::uint64_t largest = max_finite(format);
  const int exponent64 = static_cast<int>((bits & kExponentMask64) >> 52);
  std::uint64_t magnitude = largest + 1;  // what infinity and NaN give where the type has no code for them
  if (exponent64 == 0x7ff) {
    if (mantissa != 0 && format.special != Special::kFinite)
      return static_cast<std::uint32_t>(nan_code(format, sign, mantissa));
    if (mantissa == 0 && format.special == Special::kIeee) return static_cast<std::uint32_t>(sign | magnitude);
  } else {
    // Subnormal binary64 numbers are below a half of every smallest code: their missing implicit bit doesn't matter.
    const std::uint64_t significand = mantissa | (exponent64 != 0 ? kMantissaMask64 + 1 : 0);
    const int exponent = exponent64 - 1023 + format.bias, shift = 52 - format.mantissa_bits;
    magnitude = exponent >= 1 ? (static_cast<std::uint64_t>(exponent - 1) << format.mantissa_bits) +
                                    round_shift(significand, shift)
                              : round_shift(significand, shift + 1 - exponent);
  }
  if (magnitude > largest) {
    overflow = true;
    if (saturate || format.special == Special::kFinite) return static_cast<std::uint32_t>(sign | largest);
    if (format.special == Special::kIeee) return static_cast<std::uint32_t>(sign | (largest + 1));
    return static_cast<std::uint32_t>(nan_code(format, sign, mantissa));
  }
  if (magnitude == 0 && format.special == Special::kFnuz) return 0;
  return static_cast<std::uint32_t>(sign | magnitude);
}

std::uint32_t decode_mini(const MiniFloat& format, std::uint32_t code) {
  const int mantissa_bits = format.mantissa_bits;
  const std::uint32_t sign_bit = std::uint32_t{1} << (format.bits() - 1);
  const std::uint32_t sign = (code & sign_bit) != 0 ? 0x8000'0000u : 0u, magnitude = code & (sign_bit - 1);
  const std::uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  if (format.special == Special::kFnuz && code == sign_bit) return kNaN32;
  if (format.special == Special::kFn && magnitude == sign_bit - 1) return sign | kNaN32;
  if (format.special == Special::kIeee && exponent == (1u << format.exponent_bits) - 1)
    return sign | 0x7f80'0000u | (mantissa << (23 - mantissa_bits));
  if (exponent != 0)
    return sign | ((exponent + 127 - static_cast<std::uint32_t>(format.bias)) << 23) |
           (mantissa << (23 - mantissa_bits));
  if (mantissa == 0) return sign;
  const int top = std::bit_width(mantissa);  // value = mantissa · 2^(1 - bias - mantissa_bits)
  const auto exponent32 = static_cast<std::uint32_t>(127 - format.bias - mantissa_bits + top);
  return sign | (exponent32 << 23) | ((mantissa << (24 - top)) & 0x007f'ffff);
}

std::uint32_t encode_e8m0(double value, bool saturate, bool& overflow) {
  constexpr std::uint32_t kNaN = 255, kLargest = 254;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const std::uint64_t mantissa = bits & kMantissaMask64;
  const int exponent64 = static_cast<int>((bits & kExponentMask64) >> 52);
  if (exponent64 == 0x7ff && mantissa != 0) return kNaN;
  if ((bits << 1) == 0) return 0;
  if (negative) {
    overflow = true;
    return saturate ? 0 : kNaN;
  }
  const int exponent = exponent64 - 1023 + 127;
  if (exponent < 0 || (exponent == 0 && mantissa == 0)) return 0;
  if (exponent == 0) return 1;
  const auto code = static_cast<std::uint32_t>(exponent) + (mantissa >> 51 != 0 ? 1u : 0u);
  if (code <= kLargest) return code;
  overflow = true;
  return saturate ? kLargest : kNaN;
}

std::uint32_t decode_e8m0(std::uint32_t code) {
  if (code == 255) return kNaN32;
  return code == 0 ? 0x0040'0000u : code << 23;
}

}  // namespace wconv::kernels
