// Arrays of binary32 to and from binary16 and bfloat16.
//
// Byte pointers need no alignment; `n` counts elements; in and out do not overlap. The results are the same for every
// variant, bit for bit (float_bits.h). The two that narrow return true when a finite value became infinite, so that
// the caller may look for it with more leisure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wconv::kernels {

void bf16_to_f32_ref(const std::byte* in, float* out, std::size_t n);
void f16_to_f32_ref(const std::byte* in, float* out, std::size_t n);
bool f32_to_bf16_ref(const float* in, std::byte* out, std::size_t n);
bool f32_to_f16_ref(const float* in, std::byte* out, std::size_t n);

// Highway, on the best instruction set that hwy::SupportedTargets() allows.
void bf16_to_f32_simd(const std::byte* in, float* out, std::size_t n);
void f16_to_f32_simd(const std::byte* in, float* out, std::size_t n);
bool f32_to_bf16_simd(const float* in, std::byte* out, std::size_t n);
bool f32_to_f16_simd(const float* in, std::byte* out, std::size_t n);

struct FloatCasts {
  void (*bf16_to_f32)(const std::byte*, float*, std::size_t);
  void (*f16_to_f32)(const std::byte*, float*, std::size_t);
  bool (*f32_to_bf16)(const float*, std::byte*, std::size_t);
  bool (*f32_to_f16)(const float*, std::byte*, std::size_t);
};

// The variant that kernel_target() names (wconv/numeric.h). Throws Error(kUsage) as it does.
const FloatCasts& float_casts();

}  // namespace wconv::kernels
