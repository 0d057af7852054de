// WCONV_KERNELS in the program itself: whatever it names, the output has the same bytes.
#include <gtest/gtest.h>

#include "support/support.h"

namespace wconv::kernels {
namespace {

using test::TempDir;

constexpr const char* kNames[] = {"scalar",  "emu128", "ssse3", "sse4", "avx2",    "avx3",
                                  "avx3_dl", "neon",   "sve",   "sve2", "sve_256", "sve2_128"};

// Every upper half of a binary32, NaN and infinity too, with lower halves at and beside the rounding decisions.
std::string write_input(const TempDir& dir) {
  std::vector<std::uint32_t> wide;
  std::vector<std::uint16_t> narrow;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    narrow.push_back(static_cast<std::uint16_t>(high));
    for (const std::uint32_t low : {0u, 0x1000u, 0x7fffu, 0x8000u, 0x8001u}) wide.push_back(high << 16 | low);
  }
  return test::write_safetensors(dir / "in.safetensors",
                                 {{"bf16", DType::kBF16, {narrow.size()}, test::bytes_of(narrow)},
                                  {"f16", DType::kF16, {narrow.size()}, test::bytes_of(narrow)},
                                  {"f32", DType::kF32, {wide.size()}, test::bytes_of(wide)}});
}

TEST(KernelTargets, EveryOneGivesTheSameFile) {
  const TempDir dir;
  const std::string input = write_input(dir);
  std::vector<std::string> ran;
  for (const std::string dtype : {"f16", "bf16", "f32"}) {
    std::string expected;
    ran.clear();
    for (const std::string name : kNames) {
      const std::vector<std::string> environment = {"WCONV_KERNELS=" + name};
      const auto version = test::wconv({"--version"}, environment);
      if (version.status == 2) continue;  // not one of this machine's
      EXPECT_NE(version.out.find("(" + name + ")"), std::string::npos) << version.out;
      const std::string out = dir / (dtype + "." + name + ".safetensors");
      const auto result = test::wconv(
          {"convert", input, "-o", out, "--dtype", dtype, "--on-overflow", "inf", "--no-manifest", "-q"}, environment);
      ASSERT_EQ(result.status, 0) << result.err;
      const std::string bytes = test::read_file(out);
      if (expected.empty()) expected = bytes;  // of scalar, which comes first and runs everywhere
      EXPECT_TRUE(bytes == expected) << dtype << " with " << name;
      ran.push_back(name);
    }
  }
  ASSERT_GE(ran.size(), 2u) << "no kernels but the scalar ones";
  EXPECT_EQ(ran.front(), "scalar");
}

}  // namespace
}  // namespace wconv::kernels
