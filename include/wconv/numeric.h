// Decoding stored elements to floats and back: the arithmetic of every cast, comparison and statistic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wconv/dtype.h"

namespace wconv {

// True when decode_f64 knows the type: all plain types but complex (those compare part by part, see parts()).
bool can_decode(DType dtype);

// Decodes out.size() elements from whole blocks. Exact for every type up to 53 bits; I64 and U64 round to nearest.
void decode_f64(DType dtype, std::span<const std::byte> in, std::span<double> out);
// As decode_f64 for types that fit binary32 exactly (F32 and narrower floats): faster. Bit-exact, NaN payloads kept.
bool fits_f32(DType dtype);
void decode_f32(DType dtype, std::span<const std::byte> in, std::span<float> out);

enum class Overflow { kInfinity, kSaturate };
struct EncodeResult {
  std::uint64_t overflowed = 0;  // finite inputs whose rounded value is out of range
  std::uint64_t first = 0;       // index of the first of them
};
// Rounds to nearest, ties to even; NaN stays NaN. Types without infinity (E4M3, FNUZ, …) give NaN for kInfinity;
// types without NaN (F4, F6) saturate.
EncodeResult encode_f32(DType dtype, std::span<const float> in, std::span<std::byte> out, Overflow mode);
// One rounding from binary64, never two.
EncodeResult encode_f64(DType dtype, std::span<const double> in, std::span<std::byte> out, Overflow mode);

// The kernels that run: "avx2", "neon", "scalar", … WCONV_KERNELS in the environment chooses; Error(kUsage) when it
// names what is unknown or not available here. Decoding and encoding throw the same.
std::string_view kernel_target();

}  // namespace wconv
