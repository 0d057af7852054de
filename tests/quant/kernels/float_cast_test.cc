// The conversions between binary32, binary16 and bfloat16: every instruction set gives the reference's bits.
#include "quant/kernels/float_cast.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "quant/kernels/float_bits.h"

namespace wconv::kernels {
namespace {

float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// Every upper half with lower halves around all rounding decisions.
std::vector<float> all_kinds_of_f32() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (std::uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(from_bits((high << 16) | low));
  return values;
}

class FloatCast : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  static void choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(FloatCast, NarrowingMatchesReferenceBitForBit) {
  const std::vector<float> in = all_kinds_of_f32();
  std::vector<std::byte> want(in.size() * 2), got(in.size() * 2);
  EXPECT_TRUE(f32_to_bf16_ref(in.data(), want.data(), in.size()));
  EXPECT_TRUE(f32_to_bf16_simd(in.data(), got.data(), in.size()));
  EXPECT_TRUE(want == got);
  EXPECT_TRUE(f32_to_f16_ref(in.data(), want.data(), in.size()));
  EXPECT_TRUE(f32_to_f16_simd(in.data(), got.data(), in.size()));
  EXPECT_TRUE(want == got);
}

TEST_P(FloatCast, WideningMatchesReferenceBitForBit) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  const auto* in = reinterpret_cast<const std::byte*>(codes.data());
  std::vector<float> want(codes.size()), got(codes.size());
  bf16_to_f32_ref(in, want.data(), want.size());
  bf16_to_f32_simd(in, got.data(), got.size());
  EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0);
  f16_to_f32_ref(in, want.data(), want.size());
  f16_to_f32_simd(in, got.data(), got.size());
  EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0);
}

TEST_P(FloatCast, AnyLengthAndOddAlignment) {
  for (std::size_t n : {0u, 1u, 2u, 3u, 7u, 8u, 17u, 33u}) {
    std::vector<float> in(n), wide(n), back(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<float>(i) * 0.1f - 1.0f;
    std::vector<std::byte> want(n * 2), storage(n * 2 + 2, std::byte{0xee});
    f32_to_f16_ref(in.data(), want.data(), n);
    EXPECT_FALSE(f32_to_f16_simd(in.data(), storage.data() + 1, n));
    EXPECT_EQ(n == 0 ? 0 : std::memcmp(want.data(), storage.data() + 1, n * 2), 0) << n;
    EXPECT_EQ(storage.front(), std::byte{0xee});
    EXPECT_EQ(storage.back(), std::byte{0xee});
    f16_to_f32_ref(want.data(), wide.data(), n);
    f16_to_f32_simd(storage.data() + 1, back.data(), n);
    EXPECT_EQ(wide, back) << n;
  }
}

TEST_P(FloatCast, ReportsOverflowInEveryLane) {
  for (std::size_t at = 0; at < 21; ++at) {
    std::vector<float> in(21, 1.0f);
    std::vector<std::byte> out(42);
    in[at] = -65519.99f;
    EXPECT_FALSE(f32_to_f16_simd(in.data(), out.data(), in.size())) << at;
    in[at] = -65520.0f;
    EXPECT_TRUE(f32_to_f16_simd(in.data(), out.data(), in.size())) << at;
    EXPECT_FALSE(f32_to_bf16_simd(in.data(), out.data(), in.size())) << at;
    in[at] = from_bits(0x7f7f'8000);
    EXPECT_TRUE(f32_to_bf16_simd(in.data(), out.data(), in.size())) << at;
    in[at] = from_bits(0x7f80'0000);
    EXPECT_FALSE(f32_to_f16_simd(in.data(), out.data(), in.size())) << at;
    EXPECT_FALSE(f32_to_bf16_simd(in.data(), out.data(), in.size())) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FloatCast, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& param) { return std::string(hwy::TargetName(param.param)); });

TEST(FloatBits, EveryCodeSurvivesWideningAndNarrowing) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    ASSERT_EQ(f32_bits_to_bf16(bf16_to_f32_bits(half)), half);
    ASSERT_EQ(f32_bits_to_f16(f16_to_f32_bits(half)), half);
  }
}

TEST(FloatBits, Corners) {
  EXPECT_EQ(f32_bits_to_bf16(0x3f80'8000), 0x3f80);  // 1 + 2^-8: tie to even
  EXPECT_EQ(f32_bits_to_bf16(0x3f81'8000), 0x3f82);
  EXPECT_EQ(f32_bits_to_bf16(0x7f7f'ffff), 0x7f80);
  EXPECT_EQ(f32_bits_to_bf16(0x7f80'0001), 0x7fc0);  // nothing of the payload would be left: quiet
  EXPECT_EQ(f32_bits_to_bf16(0xffa0'0000), 0xffa0);  // a signalling payload stays
  EXPECT_EQ(f32_bits_to_bf16(0x8000'0000), 0x8000);
  EXPECT_EQ(f32_bits_to_bf16(0x0001'0000), 0x0001);  // 2^-133
  EXPECT_EQ(f32_bits_to_bf16(0x0000'8000), 0x0000);  // 2^-134
  EXPECT_EQ(f32_bits_to_f16(0x477f'efff), 0x7bff);
  EXPECT_EQ(f32_bits_to_f16(0x477f'f000), 0x7c00);
  EXPECT_EQ(f32_bits_to_f16(0x3300'0000), 0x0000);  // 2^-25: tie to even
  EXPECT_EQ(f32_bits_to_f16(0x3300'0001), 0x0001);
  EXPECT_EQ(f32_bits_to_f16(0xff80'0001), 0xfe00);
  EXPECT_EQ(f32_bits_to_f16(0x8000'0001), 0x8000);
  EXPECT_EQ(f16_to_f32_bits(0x0001), 0x3380'0000u);
  EXPECT_EQ(f16_to_f32_bits(0x83ff), 0xb87f'c000u);
}

}  // namespace
}  // namespace wconv::kernels
