#include "quant/kernels/cpu_targets.h"

#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace wconv::kernels {

#if HWY_ARCH_X86
namespace {

// A bit of ECX of a CPUID leaf: for features whose names clang 14 does not know. They need no more of the system than
// AVX2, which __builtin_cpu_supports has asked for.
bool cpuid_ecx(unsigned leaf, unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(leaf, 0, &a, &b, &c, &d) != 0 && (c >> bit & 1) != 0;
}

}  // namespace

std::int64_t cpu_targets() {
  __builtin_cpu_init();
  // Each target needs all of those before it. The instruction sets are those that Highway compiles it with.
  const bool ssse3 = __builtin_cpu_supports("ssse3");
  const bool sse4 = ssse3 && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") &&
                    __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && cpuid_ecx(1, 29) /* F16C */ &&
                    cpuid_ecx(0x80000001, 5) /* LZCNT */;
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  const bool avx3_dl = avx3 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
                       __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                       cpuid_ecx(7, 9) /* VAES */ && __builtin_cpu_supports("avx512vpopcntdq") &&
                       __builtin_cpu_supports("avx512bitalg");
  return (ssse3 ? HWY_SSSE3 : 0) | (sse4 ? HWY_SSE4 : 0) | (avx2 ? HWY_AVX2 : 0) | (avx3 ? HWY_AVX3 : 0) |
         (avx3_dl ? HWY_AVX3_DL : 0) | HWY_ENABLED_BASELINE;
}
#else
std::int64_t cpu_targets() { return HWY_ENABLED_BASELINE; }
#endif

}  // namespace wconv::kernels
