// Builds without libhwy choose the kernels that builds with it choose.
#include "quant/kernels/cpu_targets.h"

#include <gtest/gtest.h>

#include "hwy/highway.h"

namespace wconv::kernels {
namespace {

TEST(CpuTargets, EqualThoseOfHighway) {
  EXPECT_EQ(cpu_targets() & HWY_TARGETS, hwy::SupportedTargets() & HWY_TARGETS);
  EXPECT_NE(cpu_targets() & HWY_TARGETS, 0);
}

}  // namespace
}  // namespace wconv::kernels
