// Every floating-point storage type narrower than binary64, described by its fields: the plain arithmetic of encoding
// with one rounding (nearest, ties to even) and of decoding.
#pragma once

#include <cstdint>

namespace wconv::kernels {

// What the codes with the highest exponent mean.
enum class Special : std::uint8_t {
  kIeee,    // infinity, and NaN with a payload
  kFn,      // no infinity; all ones is NaN                          (E4M3 of the OCP)
  kFnuz,    // no infinity, no -0; the code of -0 is the only NaN    (E4M3FNUZ, E5M2FNUZ)
  kFinite,  // neither infinity nor NaN                              (F6, F4)
};

//   sign | exponent (exponent_bits) | mantissa (mantissa_bits)       low bits of the code, sign at the top
struct MiniFloat {
  std::uint8_t exponent_bits;
  std::uint8_t mantissa_bits;
  std::int16_t bias;
  Special special;
  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

inline constexpr MiniFloat kF32{8, 23, 127, Special::kIeee};
inline constexpr MiniFloat kBF16{8, 7, 127, Special::kIeee};
inline constexpr MiniFloat kF16{5, 10, 15, Special::kIeee};
inline constexpr MiniFloat kF8E5M2{5, 2, 15, Special::kIeee};
inline constexpr MiniFloat kF8E4M3{4, 3, 7, Special::kFn};
inline constexpr MiniFloat kF8E4M3Fnuz{4, 3, 8, Special::kFnuz};
inline constexpr MiniFloat kF8E5M2Fnuz{5, 2, 16, Special::kFnuz};
inline constexpr MiniFloat kF6E2M3{2, 3, 1, Special::kFinite};
inline constexpr MiniFloat kF6E3M2{3, 2, 3, Special::kFinite};
inline constexpr MiniFloat kF4E2M1{2, 1, 1, Special::kFinite};

// `overflow` is set (never cleared) where a finite value rounds out of range, where infinity meets a type without it,
// and where NaN meets a type without NaN. The code is then infinity, or NaN for a type without infinity; with
// `saturate` or for a type with neither, the largest finite magnitude.
std::uint32_t encode_mini(const MiniFloat& format, double value, bool saturate, bool& overflow);

// binary32 pattern of a code of at most 8 bits.
std::uint32_t decode_mini(const MiniFloat& format, std::uint32_t code);

// E8M0: 2^(code - 127); 255 is NaN. Encoding takes the nearest power of two and goes up from half way, as torch does:
// 1.5 gives 2, 0 gives the smallest, and so does all up to it (2^-127); what is above that and below 2^-126 gives
// 2^-126. Negative numbers overflow: NaN, or the smallest with `saturate` (torch drops their sign).
std::uint32_t encode_e8m0(double value, bool saturate, bool& overflow);
std::uint32_t decode_e8m0(std::uint32_t code);

}  // namespace wconv::kernels
