// What Highway asks of a CPU, for builds without libhwy: Debian ships no static one.
#pragma once

#include <cstdint>

namespace wconv::kernels {

// Bits of the Highway targets (HWY_AVX2, …) that this CPU and its system run. On other machines than x86 those that the
// compiler was told to use anyway.
std::int64_t cpu_targets();

}  // namespace wconv::kernels
