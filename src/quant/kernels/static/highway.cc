// The functions of libhwy that Highway's headers call, for WCONV_STATIC.
#include "hwy/highway.h"

#include <atomic>

#include "quant/kernels/cpu_targets.h"

namespace hwy {
namespace {

std::atomic<std::int64_t> g_disabled{0};

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t targets = wconv::kernels::cpu_targets();
  const std::int64_t left = targets & ~g_disabled.load();
  return left != 0 ? left : HWY_STATIC_TARGET;
}

void DisableTargets(std::int64_t disabled_targets) {
  g_disabled = disabled_targets;
  GetChosenTarget().DeInit();  // the next call of a kernel asks SupportedTargets again
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
