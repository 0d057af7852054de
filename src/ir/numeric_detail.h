// Shared by numeric_decode.cc and numeric_encode.cc.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/kernels/mini_float.h"
#include "wconv/dtype.h"
#include "wconv/error.h"

namespace wconv::detail {

// Elements converted at a time through a buffer on the stack. A multiple of every packed group.
inline constexpr std::size_t kChunk = 2048;

inline unsigned element_bits(DType dtype) {
  const DTypeInfo& row = info(dtype);
  return 8u * row.block_bytes / row.block_elements;
}

// Packed types are one little-endian stream of bits: element i lies at bit i · width.
inline std::uint32_t packed_code(std::span<const std::byte> in, std::size_t i, unsigned width) {
  const std::size_t bit = i * width, byte = bit / 8;
  std::uint32_t bits = std::to_integer<std::uint32_t>(in[byte]);
  if (bit % 8 + width > 8) bits |= std::to_integer<std::uint32_t>(in[byte + 1]) << 8;
  return (bits >> (bit % 8)) & ((1u << width) - 1);
}

inline void require_bytes(DType dtype, std::size_t size_bytes, std::size_t elements) {
  const std::size_t needed = (elements * element_bits(dtype) + 7) / 8;
  if (size_bytes < needed)
    fail(ErrorCode::kInternal, "{} elements of {} need {} bytes, {} given", elements, name(dtype), needed, size_bytes);
}

// binary32 to binary64; a NaN keeps its payload and is not made quiet.
inline double widen(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffff) <= 0x7f80'0000) return value;
  return std::bit_cast<double>((std::uint64_t{bits >> 31} << 63) | 0x7ff0'0000'0000'0000 |
                               (std::uint64_t{bits & 0x007f'ffff} << 29));
}

}  // namespace wconv::detail
