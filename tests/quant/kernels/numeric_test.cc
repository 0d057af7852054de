// Rounding, NaN, infinity, overflow counting and packing, by name.
#include "wconv/numeric.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/kernels/target.h"
#include "wconv/error.h"

namespace wconv {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<unsigned> encode(DType dtype, const std::vector<double>& in, Overflow mode = Overflow::kInfinity,
                             EncodeResult* result = nullptr) {
  std::vector<std::byte> out((in.size() * info(dtype).block_bytes + info(dtype).block_elements - 1) /
                             info(dtype).block_elements);
  const EncodeResult got = encode_f64(dtype, in, out, mode);
  if (result != nullptr) *result = got;
  std::vector<unsigned> bytes;
  for (std::byte byte : out) bytes.push_back(std::to_integer<unsigned>(byte));
  return bytes;
}

std::vector<double> decode(DType dtype, const std::vector<unsigned>& bytes, std::size_t n) {
  std::vector<std::byte> in;
  for (unsigned byte : bytes) in.push_back(static_cast<std::byte>(byte));
  std::vector<double> out(n);
  decode_f64(dtype, in, out);
  return out;
}

using Bytes = std::vector<unsigned>;

TEST(Numeric, OneRoundingFromBinary64) {
  // Just above half way between two F16 values: rounding to F32 first would land on the tie and go to even.
  const double above_tie = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(encode(DType::kF16, {above_tie}), (Bytes{0x01, 0x3c}));
  EXPECT_EQ(encode(DType::kBF16, {1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)}), (Bytes{0x81, 0x3f}));
  EXPECT_EQ(encode(DType::kF8E4M3, {1.0 + std::ldexp(1.0, -4) + std::ldexp(1.0, -40)}), (Bytes{0x39}));
  EXPECT_EQ(encode(DType::kF32, {1.0 + std::ldexp(1.0, -24) + std::ldexp(1.0, -50)}), (Bytes{1, 0, 0x80, 0x3f}));
}

TEST(Numeric, OverflowIsCountedWithTheFirstIndex) {
  EncodeResult result;
  EXPECT_EQ(encode(DType::kF16, {1, 65519.99, 65520, -1e9, kInf, kNaN}, Overflow::kInfinity, &result),
            (Bytes{0x00, 0x3c, 0xff, 0x7b, 0x00, 0x7c, 0x00, 0xfc, 0x00, 0x7c, 0x00, 0x7e}));
  EXPECT_EQ(result.overflowed, 2u);
  EXPECT_EQ(result.first, 2u);
  EXPECT_EQ(encode(DType::kF16, {65520, -1e9, kInf}, Overflow::kSaturate, &result),
            (Bytes{0xff, 0x7b, 0xff, 0xfb, 0x00, 0x7c}));
  EXPECT_EQ(result.overflowed, 2u);
}

TEST(Numeric, OverflowIndexAcrossChunks) {
  std::vector<float> in(10000, 1.0f);
  in[5000] = in[9999] = 1e6f;
  std::vector<std::byte> out(in.size() * 2);
  const EncodeResult result = encode_f32(DType::kF16, in, out, Overflow::kInfinity);
  EXPECT_EQ(result.overflowed, 2u);
  EXPECT_EQ(result.first, 5000u);
  EXPECT_EQ(out[2 * 5000 + 1], std::byte{0x7c});
}

TEST(Numeric, TypesWithoutInfinityGiveNaN) {
  EncodeResult result;
  EXPECT_EQ(encode(DType::kF8E4M3, {464, 465, -kInf, kNaN}, Overflow::kInfinity, &result),
            (Bytes{0x7e, 0x7f, 0xff, 0x7f}));
  EXPECT_EQ(result.overflowed, 2u);
  EXPECT_EQ(result.first, 1u);
  EXPECT_EQ(encode(DType::kF8E4M3, {465, -kInf}, Overflow::kSaturate), (Bytes{0x7e, 0xfe}));
  EXPECT_EQ(encode(DType::kF8E4M3Fnuz, {240, 248, -kInf, kNaN, -0.0, -1e-9}), (Bytes{0x7f, 0x80, 0x80, 0x80, 0, 0}));
  EXPECT_EQ(encode(DType::kF8E5M2Fnuz, {57344, 61440}, Overflow::kSaturate), (Bytes{0x7f, 0x7f}));
  EXPECT_EQ(encode(DType::kF8E5M2, {57344, 61440, kInf, -0.0}), (Bytes{0x7b, 0x7c, 0x7c, 0x80}));
}

TEST(Numeric, TypesWithoutNaNSaturateAndCount) {
  EncodeResult result;
  EXPECT_EQ(encode(DType::kF4, {6.9, 7, -8, -kInf}, Overflow::kInfinity, &result), (Bytes{0x77, 0xff}));
  EXPECT_EQ(result.overflowed, 3u);
  EXPECT_EQ(result.first, 1u);
  EXPECT_EQ(encode(DType::kF4, {1, kNaN}, Overflow::kInfinity, &result), (Bytes{0x72}));
  EXPECT_EQ(result.overflowed, 1u);
  EXPECT_EQ(result.first, 1u);
}

TEST(Numeric, E8M0TakesThePowerOfTwo) {
  EncodeResult result;
  EXPECT_EQ(encode(DType::kF8E8M0, {1, 1.49, 1.5, 0, std::ldexp(1.0, -127), std::ldexp(1.0, -130), kNaN}),
            (Bytes{127, 127, 128, 0, 0, 0, 255}));
  EXPECT_EQ(
      encode(DType::kF8E8M0, {std::ldexp(1.0, 127), std::ldexp(1.5, 127), -1, kInf}, Overflow::kInfinity, &result),
      (Bytes{254, 255, 255, 255}));
  EXPECT_EQ(result.overflowed, 3u);
  EXPECT_EQ(encode(DType::kF8E8M0, {kInf, -1}, Overflow::kSaturate), (Bytes{254, 0}));
  EXPECT_EQ(decode(DType::kF8E8M0, {0, 127, 254}, 3), (std::vector{std::ldexp(1.0, -127), 1.0, std::ldexp(1.0, 127)}));
}

TEST(Numeric, SubByteTypesPackLowBitsFirst) {
  EXPECT_EQ(encode(DType::kF4, {0.5, 1, -6}), (Bytes{0x21, 0x0f}));
  EXPECT_EQ(decode(DType::kF4, {0x21, 0x0f}, 3), (std::vector{0.5, 1.0, -6.0}));
  EXPECT_EQ(encode(DType::kI4, {1, -1, -8}), (Bytes{0xf1, 0x08}));
  EXPECT_EQ(decode(DType::kI4, {0xf1, 0x08}, 3), (std::vector{1.0, -1.0, -8.0}));
  EXPECT_EQ(decode(DType::kU4, {0xf1}, 2), (std::vector{1.0, 15.0}));
  EXPECT_EQ(decode(DType::kU2, {0xe4}, 4), (std::vector{0.0, 1.0, 2.0, 3.0}));
  EXPECT_EQ(decode(DType::kI2, {0xe4}, 4), (std::vector{0.0, 1.0, -2.0, -1.0}));
  // Codes 1, 2, 3, 4 of six bits in 24: 000100 000011 000010 000001.
  EXPECT_EQ(encode(DType::kF6E2M3, {0.125, 0.25, 0.375, 0.5}), (Bytes{0x81, 0x30, 0x10}));
  EXPECT_EQ(decode(DType::kF6E2M3, {0x81, 0x30, 0x10}, 4), (std::vector{0.125, 0.25, 0.375, 0.5}));
}

TEST(Numeric, IntegersRoundAndCountWhatDoesNotFit) {
  EncodeResult result;
  EXPECT_EQ(encode(DType::kI8, {0.5, 1.5, -128.4, 127.6, kNaN}, Overflow::kSaturate, &result),
            (Bytes{0, 2, 0x80, 0x7f, 0}));
  EXPECT_EQ(result.overflowed, 2u);
  EXPECT_EQ(result.first, 3u);
  EXPECT_EQ(encode(DType::kU64, {18446744073709549568.0, 18446744073709551616.0}, Overflow::kSaturate, &result),
            (Bytes{0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}));
  EXPECT_EQ(result.overflowed, 1u);
  EXPECT_EQ(encode(DType::kBool, {0, 2, -0.0}), (Bytes{0, 1, 0}));
  EXPECT_EQ(decode(DType::kI64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1), (std::vector{-1.0}));
}

TEST(Numeric, NaNPayloadAndSignSurviveBinary64) {
  for (std::uint32_t bits : {0x7f80'0001u, 0xffbf'ffffu, 0x7fc0'1234u}) {
    const float nan = std::bit_cast<float>(bits);
    std::vector<double> wide(1);
    decode_f64(DType::kF32, std::as_bytes(std::span(&nan, 1)), wide);
    std::vector<std::byte> back(4);
    EXPECT_EQ(encode_f64(DType::kF32, wide, back, Overflow::kInfinity).overflowed, 0u);
    EXPECT_EQ(std::memcmp(back.data(), &nan, 4), 0) << std::hex << bits;
  }
}

TEST(Numeric, KnowsWhatItCanDecode) {
  for (const DTypeInfo& row : all_dtypes()) {
    const bool plain = row.kind != DTypeKind::kBlock && row.kind != DTypeKind::kComplex;
    EXPECT_EQ(can_decode(row.dtype), plain) << row.name;
    EXPECT_EQ(fits_f32(row.dtype), row.kind == DTypeKind::kFloat && row.dtype != DType::kF64) << row.name;
  }
  std::vector<double> out(32);
  EXPECT_THROW(decode_f64(DType::kQ4_0, std::vector<std::byte>(18), out), Error);
}

TEST(Target, UnknownNameIsAUsageError) {
  try {
    kernels::resolve_target("avx9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.message().find("WCONV_KERNELS is 'avx9'"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("scalar"), std::string::npos) << error.message();
  }
  EXPECT_TRUE(kernels::resolve_target("scalar").scalar);
  EXPECT_FALSE(kernel_target().empty());
}

}  // namespace
}  // namespace wconv
