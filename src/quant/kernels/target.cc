#include "quant/kernels/target.h"

#include <array>
#include <cstdlib>
#include <string>

#include "hwy/highway.h"
#include "quant/kernels/float_cast.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::kernels {
namespace {

struct NamedTarget {
  std::string_view name;
  long long bit;
};

// Best first. Highway orders its bits the same way: a lower bit is a better target.
constexpr auto kTargets = std::to_array<NamedTarget>({
#if HWY_ARCH_X86
  {"avx3_dl", HWY_AVX3_DL}, {"avx3", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}, {"ssse3", HWY_SSSE3},
#elif HWY_ARCH_ARM
  {"sve2_128", HWY_SVE2_128}, {"sve_256", HWY_SVE_256}, {"sve2", HWY_SVE2}, {"sve", HWY_SVE}, {"neon", HWY_NEON},
#endif
      {"emu128", HWY_EMU128},
});

long long available_targets() { return HWY_SUPPORTED_TARGETS & HWY_TARGETS; }

std::string allowed_names() {
  std::string names = "scalar";
  for (const auto& target : kTargets)
    if (available_targets() & target.bit) names.append(", ").append(target.name);
  return names;
}

constexpr FloatCasts kScalarCasts = {bf16_to_f32_ref, f16_to_f32_ref, f32_to_bf16_ref, f32_to_f16_ref};
constexpr FloatCasts kSimdCasts = {bf16_to_f32_simd, f16_to_f32_simd, f32_to_bf16_simd, f32_to_f16_simd};

}  // namespace

Target resolve_target(std::string_view name) {
  if (name == "scalar") return {.scalar = true, .name = "scalar"};
  for (const auto& target : kTargets) {
    if ((available_targets() & target.bit) == 0 || (!name.empty() && name != target.name)) continue;
    return {.disabled_targets = name.empty() ? 0 : HWY_TARGETS & ~target.bit, .name = target.name};
  }
  if (name.empty()) return {.scalar = true, .name = "scalar"};
  fail(ErrorCode::kUsage, "WCONV_KERNELS is '{}', which is not one of the kernels that run here: {}", printable(name),
       allowed_names());
}

const Target& chosen_target() {
  static const Target target = [] {
    const char* name = std::getenv("WCONV_KERNELS");
    const Target resolved = resolve_target(name == nullptr ? "" : name);
    if (resolved.disabled_targets != 0) hwy::DisableTargets(resolved.disabled_targets);
    return resolved;
  }();
  return target;
}

const FloatCasts& float_casts() { return chosen_target().scalar ? kScalarCasts : kSimdCasts; }

}  // namespace wconv::kernels

namespace wconv {

std::string_view kernel_target() { return kernels::chosen_target().name; }

}  // namespace wconv
