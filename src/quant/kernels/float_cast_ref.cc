#include <cstring>

#include "quant/kernels/float_bits.h"
#include "quant/kernels/float_cast.h"

namespace wconv::kernels {
namespace {

std::uint16_t load_u16(const std::byte* in) {
  std::uint16_t code;
  std::memcpy(&code, in, sizeof code);
  return code;
}

}  // namespace

void bf16_to_f32_ref(const std::byte* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bf16_to_f32_bits(load_u16(in + 2 * i));
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

void f16_to_f32_ref(const std::byte* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = f16_to_f32_bits(load_u16(in + 2 * i));
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

bool f32_to_bf16_ref(const float* in, std::byte* out, std::size_t n) {
  bool overflow = false;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, in + i, sizeof bits);
    const std::uint32_t magnitude = bits & 0x7fff'ffff;
    overflow |= magnitude >= kF32OverflowsBf16 && magnitude < kF32Infinity;
    const std::uint16_t code = f32_bits_to_bf16(bits);
    std::memcpy(out + 2 * i, &code, sizeof code);
  }
  return overflow;
}

bool f32_to_f16_ref(const float* in, std::byte* out, std::size_t n) {
  bool overflow = false;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, in + i, sizeof bits);
    const std::uint32_t magnitude = bits & 0x7fff'ffff;
    overflow |= magnitude >= kF32OverflowsF16 && magnitude < kF32Infinity;
    const std::uint16_t code = f32_bits_to_f16(bits);
    std::memcpy(out + 2 * i, &code, sizeof code);
  }
  return overflow;
}

}  // namespace wconv::kernels
