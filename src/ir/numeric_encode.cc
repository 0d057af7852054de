#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/numeric_detail.h"
#include "quant/kernels/float_cast.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

using kernels::MiniFloat;

void count(EncodeResult& result, std::size_t index) {
  if (result.overflowed++ == 0) result.first = index;
}

void merge(EncodeResult& result, const EncodeResult& part, std::size_t offset) {
  if (part.overflowed == 0) return;
  if (result.overflowed == 0) result.first = offset + part.first;
  result.overflowed += part.overflowed;
}

template <typename T>
void store(std::span<std::byte> out, std::size_t i, T value) {
  std::memcpy(out.data() + i * sizeof(T), &value, sizeof(T));
}

// Codes of `width` bits from `encode(value, overflow)`, into whole elements of type T or a stream of bits.
template <typename T, typename Encode>
EncodeResult encode_codes(std::span<const double> in, std::span<std::byte> out, const Encode& encode) {
  EncodeResult result;
  for (std::size_t i = 0; i < in.size(); ++i) {
    bool overflow = false;
    store(out, i, static_cast<T>(encode(in[i], overflow)));
    if (overflow) count(result, i);
  }
  return result;
}

template <typename Encode>
EncodeResult encode_packed(unsigned width, std::span<const double> in, std::span<std::byte> out, const Encode& encode) {
  EncodeResult result;
  std::uint32_t pending = 0, pending_bits = 0;
  std::size_t byte = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    bool overflow = false;
    pending |= (static_cast<std::uint32_t>(encode(in[i], overflow)) & ((1u << width) - 1)) << pending_bits;
    if (overflow) count(result, i);
    for (pending_bits += width; pending_bits >= 8; pending_bits -= 8, pending >>= 8)
      out[byte++] = static_cast<std::byte>(pending & 0xff);
  }
  if (pending_bits > 0) out[byte] = static_cast<std::byte>(pending & 0xff);
  return result;
}

// The nearest integer in [lowest, highest]; NaN gives 0 and, as all that is out of range, counts.
template <typename T>
T to_integer(double value, T lowest, T highest, bool& overflow) {
  const double rounded = std::nearbyint(value);
  if (rounded >= static_cast<double>(lowest) && rounded < static_cast<double>(highest) + 1.0)
    return static_cast<T>(rounded);
  overflow = true;
  if (std::isnan(value)) return 0;
  return value < 0 ? lowest : highest;
}

template <typename T>
EncodeResult encode_integers(std::span<const double> in, std::span<std::byte> out) {
  using Limits = std::numeric_limits<T>;
  return encode_codes<T>(in, out, [](double value, bool& overflow) {
    return to_integer<T>(value, Limits::min(), Limits::max(), overflow);
  });
}

EncodeResult encode_small_integers(DType dtype, std::span<const double> in, std::span<std::byte> out) {
  const unsigned width = detail::element_bits(dtype);
  const bool is_signed = info(dtype).kind == DTypeKind::kSigned;
  const int lowest = is_signed ? -(1 << (width - 1)) : 0, highest = (1 << (is_signed ? width - 1 : width)) - 1;
  return encode_packed(width, in, out,
                       [=](double value, bool& overflow) { return to_integer<int>(value, lowest, highest, overflow); });
}

const MiniFloat* mini_float(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return &kernels::kF32;
    case DType::kBF16:
      return &kernels::kBF16;
    case DType::kF16:
      return &kernels::kF16;
    case DType::kF8E5M2:
      return &kernels::kF8E5M2;
    case DType::kF8E4M3:
      return &kernels::kF8E4M3;
    case DType::kF8E4M3Fnuz:
      return &kernels::kF8E4M3Fnuz;
    case DType::kF8E5M2Fnuz:
      return &kernels::kF8E5M2Fnuz;
    case DType::kF6E2M3:
      return &kernels::kF6E2M3;
    case DType::kF6E3M2:
      return &kernels::kF6E3M2;
    case DType::kF4:
      return &kernels::kF4E2M1;
    default:
      return nullptr;
  }
}

EncodeResult encode_floats(DType dtype, std::span<const double> in, std::span<std::byte> out, bool saturate) {
  const MiniFloat& format = *mini_float(dtype);
  const auto encode = [&format, saturate](double value, bool& overflow) {
    return kernels::encode_mini(format, value, saturate, overflow);
  };
  switch (format.bits()) {
    case 32:
      return encode_codes<std::uint32_t>(in, out, [&encode](double value, bool& overflow) {
        const auto rounded = static_cast<float>(value);  // as encode_mini, but for NaN and counting
        return std::isfinite(rounded) ? std::bit_cast<std::uint32_t>(rounded) : encode(value, overflow);
      });
    case 16:
      return encode_codes<std::uint16_t>(in, out, encode);
    case 8:
      return encode_codes<std::uint8_t>(in, out, encode);
    default:
      return encode_packed(static_cast<unsigned>(format.bits()), in, out, encode);
  }
}

EncodeResult encode_via_f64(DType dtype, std::span<const float> in, std::span<std::byte> out, Overflow mode) {
  std::array<double, detail::kChunk> chunk;
  EncodeResult result;
  const unsigned width = detail::element_bits(dtype);
  for (std::size_t i = 0; i < in.size(); i += chunk.size()) {
    const std::size_t n = std::min(chunk.size(), in.size() - i);
    for (std::size_t j = 0; j < n; ++j) chunk[j] = detail::widen(in[i + j]);
    merge(result, encode_f64(dtype, std::span(chunk).first(n), out.subspan(i * width / 8), mode), i);
  }
  return result;
}

// The vector kernel, chunk by chunk; a chunk where something overflowed is done again with counting.
EncodeResult encode_half(DType dtype, std::span<const float> in, std::span<std::byte> out, Overflow mode) {
  const auto& casts = kernels::float_casts();
  const auto narrow = dtype == DType::kF16 ? casts.f32_to_f16 : casts.f32_to_bf16;
  EncodeResult result;
  for (std::size_t i = 0; i < in.size(); i += detail::kChunk) {
    const auto part = in.subspan(i, std::min(detail::kChunk, in.size() - i));
    if (narrow(part.data(), out.data() + 2 * i, part.size()))
      merge(result, encode_via_f64(dtype, part, out.subspan(2 * i), mode), i);
  }
  return result;
}

}  // namespace

EncodeResult encode_f32(DType dtype, std::span<const float> in, std::span<std::byte> out, Overflow mode) {
  if (!can_decode(dtype)) fail(ErrorCode::kInternal, "encode_f32 called for {}", name(dtype));
  detail::require_bytes(dtype, out.size(), in.size());
  if (dtype == DType::kF16 || dtype == DType::kBF16) return encode_half(dtype, in, out, mode);
  if (dtype != DType::kF32) return encode_via_f64(dtype, in, out, mode);
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size_bytes());
  return {};
}

EncodeResult encode_f64(DType dtype, std::span<const double> in, std::span<std::byte> out, Overflow mode) {
  if (!can_decode(dtype)) fail(ErrorCode::kInternal, "encode_f64 called for {}", name(dtype));
  detail::require_bytes(dtype, out.size(), in.size());
  const bool saturate = mode == Overflow::kSaturate;
  switch (dtype) {
    case DType::kF64:
      if (!in.empty()) std::memcpy(out.data(), in.data(), in.size_bytes());
      return {};
    case DType::kF8E8M0:
      return encode_codes<std::uint8_t>(in, out, [saturate](double value, bool& overflow) {
        return kernels::encode_e8m0(value, saturate, overflow);
      });
    case DType::kBool:
      return encode_codes<std::uint8_t>(in, out, [](double value, bool&) { return value != 0.0; });
    case DType::kU8:
      return encode_integers<std::uint8_t>(in, out);
    case DType::kI8:
      return encode_integers<std::int8_t>(in, out);
    case DType::kU16:
      return encode_integers<std::uint16_t>(in, out);
    case DType::kI16:
      return encode_integers<std::int16_t>(in, out);
    case DType::kU32:
      return encode_integers<std::uint32_t>(in, out);
    case DType::kI32:
      return encode_integers<std::int32_t>(in, out);
    case DType::kU64:
      return encode_integers<std::uint64_t>(in, out);
    case DType::kI64:
      return encode_integers<std::int64_t>(in, out);
    case DType::kU4:
    case DType::kI4:
    case DType::kU2:
    case DType::kI2:
      return encode_small_integers(dtype, in, out);
    default:
      return encode_floats(dtype, in, out, saturate);
  }
}

}  // namespace wconv
