#include <algorithm>
#include <array>
#include <cstring>

#include "ir/numeric_detail.h"
#include "quant/kernels/float_cast.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

using kernels::MiniFloat;

template <std::size_t kBits, typename Decode>
std::array<float, (1u << kBits)> make_table(const Decode& decode) {
  std::array<float, (1u << kBits)> table;
  for (std::uint32_t code = 0; code < table.size(); ++code) {
    const std::uint32_t bits = decode(code);
    std::memcpy(&table[code], &bits, sizeof bits);
  }
  return table;
}

template <std::size_t kBits>
std::array<float, (1u << kBits)> make_table(const MiniFloat& format) {
  return make_table<kBits>([&format](std::uint32_t code) { return kernels::decode_mini(format, code); });
}

// Values of all codes of the types of at most 8 bits.
std::span<const float> small_float_table(DType dtype) {
  static const auto e4m3 = make_table<8>(kernels::kF8E4M3), e5m2 = make_table<8>(kernels::kF8E5M2);
  static const auto e4m3_fnuz = make_table<8>(kernels::kF8E4M3Fnuz), e5m2_fnuz = make_table<8>(kernels::kF8E5M2Fnuz);
  static const auto e8m0 = make_table<8>(kernels::decode_e8m0);
  static const auto e2m3 = make_table<6>(kernels::kF6E2M3), e3m2 = make_table<6>(kernels::kF6E3M2);
  static const auto e2m1 = make_table<4>(kernels::kF4E2M1);
  switch (dtype) {
    case DType::kF8E4M3:
      return e4m3;
    case DType::kF8E5M2:
      return e5m2;
    case DType::kF8E4M3Fnuz:
      return e4m3_fnuz;
    case DType::kF8E5M2Fnuz:
      return e5m2_fnuz;
    case DType::kF8E8M0:
      return e8m0;
    case DType::kF6E2M3:
      return e2m3;
    case DType::kF6E3M2:
      return e3m2;
    case DType::kF4:
      return e2m1;
    default:
      return {};
  }
}

template <typename T>
void decode_numbers(std::span<const std::byte> in, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T number;
    std::memcpy(&number, in.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(number);
  }
}

void decode_small_integers(DType dtype, std::span<const std::byte> in, std::span<double> out) {
  const unsigned width = detail::element_bits(dtype);
  const bool is_signed = info(dtype).kind == DTypeKind::kSigned;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t code = detail::packed_code(in, i, width);
    const bool negative = is_signed && (code >> (width - 1)) != 0;
    out[i] = static_cast<double>(code) - (negative ? static_cast<double>(1u << width) : 0.0);
  }
}

void decode_via_f32(DType dtype, std::span<const std::byte> in, std::span<double> out) {
  std::array<float, detail::kChunk> chunk;
  const unsigned width = detail::element_bits(dtype);
  for (std::size_t i = 0; i < out.size(); i += chunk.size()) {
    const std::size_t n = std::min(chunk.size(), out.size() - i);
    decode_f32(dtype, in.subspan(i * width / 8), std::span(chunk).first(n));
    for (std::size_t j = 0; j < n; ++j) out[i + j] = detail::widen(chunk[j]);
  }
}

}  // namespace

bool can_decode(DType dtype) {
  const DTypeKind kind = info(dtype).kind;
  return kind != DTypeKind::kBlock && kind != DTypeKind::kComplex;
}

bool fits_f32(DType dtype) { return info(dtype).kind == DTypeKind::kFloat && dtype != DType::kF64; }

void decode_f32(DType dtype, std::span<const std::byte> in, std::span<float> out) {
  detail::require_bytes(dtype, in.size(), out.size());
  if (out.empty()) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out.data(), in.data(), out.size_bytes());
      return;
    case DType::kF16:
      kernels::float_casts().f16_to_f32(in.data(), out.data(), out.size());
      return;
    case DType::kBF16:
      kernels::float_casts().bf16_to_f32(in.data(), out.data(), out.size());
      return;
    default:
      break;
  }
  const std::span<const float> table = small_float_table(dtype);
  const unsigned width = detail::element_bits(dtype);
  if (table.empty()) fail(ErrorCode::kInternal, "decode_f32 called for {}", name(dtype));
  if (width == 8) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = table[std::to_integer<std::size_t>(in[i])];
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = table[detail::packed_code(in, i, width)];
  }
}

void decode_f64(DType dtype, std::span<const std::byte> in, std::span<double> out) {
  if (!can_decode(dtype)) fail(ErrorCode::kInternal, "decode_f64 called for {}", name(dtype));
  detail::require_bytes(dtype, in.size(), out.size());
  if (out.empty()) return;
  switch (dtype) {
    case DType::kF64:
      std::memcpy(out.data(), in.data(), out.size_bytes());
      return;
    case DType::kBool:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i] != std::byte{0} ? 1.0 : 0.0;
      return;
    case DType::kU8:
      return decode_numbers<std::uint8_t>(in, out);
    case DType::kI8:
      return decode_numbers<std::int8_t>(in, out);
    case DType::kU16:
      return decode_numbers<std::uint16_t>(in, out);
    case DType::kI16:
      return decode_numbers<std::int16_t>(in, out);
    case DType::kU32:
      return decode_numbers<std::uint32_t>(in, out);
    case DType::kI32:
      return decode_numbers<std::int32_t>(in, out);
    case DType::kU64:
      return decode_numbers<std::uint64_t>(in, out);
    case DType::kI64:
      return decode_numbers<std::int64_t>(in, out);
    case DType::kU4:
    case DType::kI4:
    case DType::kU2:
    case DType::kI2:
      return decode_small_integers(dtype, in, out);
    default:
      return decode_via_f32(dtype, in, out);
  }
}

}  // namespace wconv
