#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/numeric.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

using test::bytes_of;
using test::read_all;

constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
Model model_with(DType dtype, const std::vector<T>& values, const std::string& name = "w") {
  return test::make_model({{name, dtype, {values.size()}, bytes_of(values)}});
}

CastRules to(DType dtype, OnOverflow on_overflow = OnOverflow::kError) { return {dtype, {}, on_overflow}; }
CastRules tensor_to(DType dtype, OnOverflow on_overflow = OnOverflow::kError) {
  return {std::nullopt, {{"*", dtype}}, on_overflow};
}

std::vector<std::uint16_t> codes(const std::vector<std::byte>& bytes) {
  std::vector<std::uint16_t> codes(bytes.size() / 2);
  std::memcpy(codes.data(), bytes.data(), bytes.size());
  return codes;
}

std::string refusal(const Model& model, const CastRules& rules, ErrorCode code = ErrorCode::kUsage) {
  try {
    const Model cast = cast_tensors(model, rules);
    for (const Tensor& tensor : cast.tensors) read_all(tensor);
    overflow_findings(cast, rules.on_overflow);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Cast, RoundsToNearestEvenAndKeepsNaN) {
  const std::vector<float> values = {1.f, 1.f + 0x1p-11f, 1.f + 3 * 0x1p-11f, -0.f, 0x1p-25f, 65519.f, kInf, NAN};
  const Model model = cast_tensors(model_with(DType::kF32, values), to(DType::kF16));
  EXPECT_EQ(model.tensors[0].info.dtype, DType::kF16);
  EXPECT_EQ(model.tensors[0].data->size_bytes(), 16u);
  EXPECT_EQ(codes(read_all(model.tensors[0])),
            (std::vector<std::uint16_t>{0x3c00, 0x3c00, 0x3c02, 0x8000, 0, 0x7bff, 0x7c00, 0x7e00}));
  EXPECT_EQ(model.tensors[0].data->overflow().elements, 0u);  // infinity stays infinity
  EXPECT_TRUE(overflow_findings(model, OnOverflow::kError).empty());
}

TEST(Cast, RecordsTypes) {
  const Model model = cast_tensors(model_with<float>(DType::kF32, {1}), to(DType::kBF16));
  ASSERT_EQ(model.tensors[0].transforms.size(), 1u);
  EXPECT_EQ(model.tensors[0].transforms[0].op, "cast");
  EXPECT_EQ(model.tensors[0].transforms[0].parameters,
            (std::vector<std::pair<std::string, std::string>>{{"from", "F32"}, {"to", "BF16"}}));
}

TEST(Cast, TheSameTypeChangesNothing) {
  const Model before = model_with<float>(DType::kF32, {1, 2});
  const Model after = cast_tensors(before, to(DType::kF32));
  EXPECT_EQ(after.tensors[0].data, before.tensors[0].data);
  EXPECT_TRUE(after.tensors[0].transforms.empty());
}

TEST(Cast, DtypeIsForFloatsAndTensorDtypeForAll) {
  Model model = test::make_model({{"a.w", DType::kF32, {1}, bytes_of({1.f})},
                                  {"a.b", DType::kF32, {1}, bytes_of({1.f})},
                                  {"ids", DType::kI64, {1}, bytes_of({std::int64_t{7}})},
                                  {"q", DType::kQ8_0, {32}, std::vector<std::byte>(34)},
                                  {"q2", DType::kQ8_0, {32}, std::vector<std::byte>(34)},
                                  {"c", DType::kC64, {1}, std::vector<std::byte>(8)}});
  CastRules rules = to(DType::kF16);
  rules.tensor_dtype = {{"a.*", DType::kBF16}, {"a.b", DType::kF64}, {"ids", DType::kI32}};
  model = cast_tensors(model, rules);
  EXPECT_EQ(model.tensors[0].info.dtype, DType::kBF16);
  EXPECT_EQ(model.tensors[1].info.dtype, DType::kF64);  // the last that matches
  EXPECT_EQ(model.tensors[2].info.dtype, DType::kI32);
  EXPECT_EQ(model.tensors[3].info.dtype, DType::kQ8_0);
  EXPECT_EQ(model.tensors[5].info.dtype, DType::kC64);
  ASSERT_EQ(model.findings.size(), 1u);
  EXPECT_EQ(model.findings[0].message, "2 tensors kept as Q8_0");
}

TEST(Cast, ImpossibleCasts) {
  EXPECT_EQ(refusal(model_with<float>(DType::kF32, {1}), to(DType::kI8)),
            "--dtype I8: I8 is an integer type; give a floating-point type such as F16, or --tensor-dtype GLOB=I8");
  EXPECT_EQ(refusal(model_with<float>(DType::kF32, {1}), tensor_to(DType::kI8)),
            "tensor 'w': a cast from F32 (a floating-point type) to I8 (an integer type) is not possible; casts go "
            "between floating-point types and between integer types");
  EXPECT_NE(refusal(model_with<std::int8_t>(DType::kI8, {1}), tensor_to(DType::kF32)).find("from I8"),
            std::string::npos);
  EXPECT_NE(refusal(model_with<float>(DType::kF32, {1}), tensor_to(DType::kQ8_0)).find("a block type of ggml"),
            std::string::npos);
  EXPECT_NE(refusal(model_with<float>(DType::kF32, {1, 2, 3}), tensor_to(DType::kF4))
                .find("tensor 'w': a cast to F4 is not possible: 3 elements of F4 do not fill whole bytes"),
            std::string::npos);
  EXPECT_NE(refusal(model_with<float>(DType::kF32, {1}), {std::nullopt, {{"x.*", DType::kF16}}, OnOverflow::kError})
                .find("no tensor matches 'x.*'"),
            std::string::npos);
}

// Overflow: exact counts and first index.

std::vector<float> with_overflow() {
  std::vector<float> values(10'000, 1.f);
  values[4'097] = 65520.f;  // the lowest that rounds to infinity
  values[9'000] = -1e30f;
  values[9'001] = 65519.f;
  values[100] = kInf;
  return values;
}

TEST(CastOverflow, IsAnErrorThatNamesTensorCountAndIndex) {
  EXPECT_EQ(refusal(model_with(DType::kF32, with_overflow()), to(DType::kF16), ErrorCode::kUnsupported),
            "memory: tensor 'w': 2 of 10000 values do not fit in the cast F32 to F16, the first at index 4097. Choose "
            "a wider "
            "type, or --on-overflow saturate or inf");
}

TEST(CastOverflow, OtherTensorsStandInTheMessage) {
  const auto bytes = bytes_of<float>({1.f, 1e30f});
  const Model model = test::make_model({{"a", DType::kF32, {2}, bytes}, {"b", DType::kF32, {2}, bytes}});
  EXPECT_EQ(
      refusal(model, to(DType::kF16), ErrorCode::kUnsupported),
      "memory: tensor 'a': 1 of 2 values do not fit in the cast F32 to F16, the first at index 1; 1 of 2 values of "
      "tensor 'b' do not fit in the cast F32 to F16, the first at index 1. Choose a wider type, or --on-overflow "
      "saturate or inf");
}

// The table below says which casts can overflow, by the ranges of the types.
TEST(CastOverflow, NarrowedTensorsAreCounted) {
  const auto narrowed = [](DType from, DType to) {
    const Model model = test::make_model({{"w", from, {4}, std::vector<std::byte>(32)}});
    return count_narrowed(cast_tensors(model, tensor_to(to))) == 1;
  };
  using enum DType;
  for (const auto& [from, to] : {std::pair{kF32, kF16},
                                 {kBF16, kF16},
                                 {kF64, kF32},
                                 {kF16, kF8E4M3},
                                 {kF8E5M2, kF8E4M3},
                                 {kF16, kF4},
                                 {kF32, kBF16},
                                 {kF32, kF8E8M0},
                                 {kF8E4M3, kF6E2M3},
                                 {kI64, kI32},
                                 {kI32, kU32},
                                 {kU32, kI32},
                                 {kU8, kI8},
                                 {kI8, kBool},
                                 {kU4, kI4},
                                 {kI4, kU4},
                                 {kI4, kI2},
                                 {kU64, kI64}}) {
    EXPECT_TRUE(narrowed(from, to)) << name(from) << " " << name(to);
  }
  for (const auto& [from, to] : {std::pair{kF16, kF32},
                                 {kF16, kBF16},
                                 {kBF16, kF32},
                                 {kF8E4M3, kF16},
                                 {kF4, kF8E4M3},
                                 {kF6E3M2, kF16},
                                 {kI32, kI64},
                                 {kU32, kI64},
                                 {kU8, kI16},
                                 {kBool, kI8},
                                 {kBool, kU2},
                                 {kI2, kI4},
                                 {kU4, kI8},
                                 {kF32, kF32}}) {
    EXPECT_FALSE(narrowed(from, to)) << name(from) << " " << name(to);
  }
}

TEST(CastOverflow, Saturates) {
  const Model model = cast_tensors(model_with(DType::kF32, with_overflow()), to(DType::kF16, OnOverflow::kSaturate));
  const auto out = codes(read_all(model.tensors[0]));
  EXPECT_EQ(out[4'097], 0x7bff);
  EXPECT_EQ(out[9'000], 0xfbff);
  EXPECT_EQ(out[9'001], 0x7bff);
  EXPECT_EQ(out[100], 0x7c00);
  const auto findings = overflow_findings(model, OnOverflow::kSaturate);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].message,
            "2 of 10000 values of tensor 'w' were saturated in the cast F32 to F16, the first at index 4097");
}

TEST(CastOverflow, BecomesInfinite) {
  const Model model = cast_tensors(model_with(DType::kF32, with_overflow()), to(DType::kF16, OnOverflow::kInfinity));
  const auto out = codes(read_all(model.tensors[0]));
  EXPECT_EQ(out[4'097], 0x7c00);
  EXPECT_EQ(out[9'000], 0xfc00);
  EXPECT_EQ(
      overflow_findings(model, OnOverflow::kInfinity).at(0).message,
      "2 of 10000 values of tensor 'w' became infinite, NaN or the largest value in the cast F32 to F16, the first "
      "at index 4097");
}

TEST(CastOverflow, Bf16ToF16) {
  const std::vector<std::uint16_t> values = {0x4780 /* 65536 */, 0x477f /* 65280 */, 0x7f7f, 0x7f80, 0x7fc0};
  const Model model = cast_tensors(model_with(DType::kBF16, values), to(DType::kF16, OnOverflow::kInfinity));
  EXPECT_EQ(codes(read_all(model.tensors[0])), (std::vector<std::uint16_t>{0x7c00, 0x7bf8, 0x7c00, 0x7c00, 0x7e00}));
  EXPECT_EQ(model.tensors[0].data->overflow().elements, 2u);
  EXPECT_EQ(model.tensors[0].data->overflow().first, 0u);
}

TEST(CastOverflow, IsCountedOnceHoweverTheReadsAreCut) {
  const Model model = cast_tensors(model_with(DType::kF32, with_overflow()), to(DType::kF16, OnOverflow::kSaturate));
  const TensorData& data = *model.tensors[0].data;
  const auto whole = read_all(model.tensors[0]);
  for (const std::size_t step : {2u, 74u, 8'192u, 8'194u, 20'000u}) {
    for (std::size_t at = 0; at < whole.size(); at += step) {
      std::vector<std::byte> part(std::min(step, whole.size() - at));
      data.read(at, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(at))) << at;
    }
    EXPECT_EQ(data.overflow().elements, 2u) << step;
    EXPECT_EQ(data.overflow().first, 4'097u) << step;
  }
}

TEST(CastOverflow, TheFirstIndexIsFoundInAnyOrder) {
  const Model model = cast_tensors(model_with(DType::kF32, with_overflow()), to(DType::kF16, OnOverflow::kSaturate));
  std::vector<std::byte> part(2);
  model.tensors[0].data->read(2 * 9'000, part);
  EXPECT_EQ(model.tensors[0].data->overflow().first, 9'000u);
  model.tensors[0].data->read(2 * 4'097, part);
  EXPECT_EQ(model.tensors[0].data->overflow().first, 4'097u);
  EXPECT_EQ(model.tensors[0].data->overflow().elements, 2u);
}

TEST(CastOverflow, ThreadsCountEachCellOnce) {
  std::vector<float> values(100'000, 1e30f);
  const Model model = cast_tensors(model_with(DType::kF32, values), to(DType::kF16, OnOverflow::kInfinity));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { read_all(model.tensors[0]); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(model.tensors[0].data->overflow().elements, 100'000u);
  EXPECT_EQ(model.tensors[0].data->overflow().first, 0u);
}

TEST(CastOverflow, ListsTwentyTensorsAndCountsTheRest) {
  std::vector<test::TensorSpec> specs;
  for (int i = 0; i < 25; ++i) specs.push_back({"w" + std::to_string(i), DType::kF32, {1}, bytes_of({1e30f})});
  const std::string text = refusal(test::make_model(specs), to(DType::kF16), ErrorCode::kUnsupported);
  EXPECT_NE(text.find("'w19'"), std::string::npos);
  EXPECT_EQ(text.find("'w20'"), std::string::npos);
  EXPECT_NE(text.find("; and 5 more tensors. Choose a wider type"), std::string::npos);
}

TEST(CastOverflow, TypesWithoutInfinity) {
  const std::vector<float> values = {464.f, 465.f, kInf, NAN};
  const auto e4m3 = [&](OnOverflow mode) {
    const Model model = cast_tensors(model_with(DType::kF32, values), to(DType::kF8E4M3, mode));
    auto bytes = read_all(model.tensors[0]);
    EXPECT_EQ(model.tensors[0].data->overflow().elements, 2u);
    EXPECT_EQ(model.tensors[0].data->overflow().first, 1u);
    return bytes;
  };
  EXPECT_EQ(e4m3(OnOverflow::kInfinity), bytes_of<std::uint8_t>({0x7e, 0x7f, 0x7f, 0x7f}));
  EXPECT_EQ(e4m3(OnOverflow::kSaturate), bytes_of<std::uint8_t>({0x7e, 0x7e, 0x7e, 0x7f}));
}

TEST(Cast, TiedTensorsStayTied) {
  Model model =
      test::make_model({{"a", DType::kF32, {2}, bytes_of({1.f, 2.f})}, {"b", DType::kF32, {2}, bytes_of({0.f, 0.f})}});
  model.tensors[1].data = model.tensors[0].data;
  model = cast_tensors(model, to(DType::kF16));
  EXPECT_EQ(model.tensors[0].data, model.tensors[1].data);
}

TEST(Cast, FromF64RoundsOnce) {
  const std::vector<double> values = {1.0 + 0x1p-11 + 0x1p-40};  // by way of F32 it would tie to 1
  const Model model = cast_tensors(model_with(DType::kF64, values), to(DType::kF16));
  EXPECT_EQ(codes(read_all(model.tensors[0])), std::vector<std::uint16_t>{0x3c01});
}

// Every pair of floats agrees with decoding and encoding the whole tensor at once.
TEST(Cast, EveryPairOfFloatTypesReadInParts) {
  std::mt19937_64 random(11);
  constexpr std::size_t kElements = 2 * 4096 + 12;  // whole groups of every packed type
  for (const DTypeInfo& from : all_dtypes()) {
    if (from.kind != DTypeKind::kFloat) continue;
    std::vector<std::byte> bytes(storage_bytes(from.dtype, std::vector<std::uint64_t>{kElements}));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const Model model = test::make_model({{"w", from.dtype, {kElements}, bytes}});
    std::vector<double> values(kElements);
    decode_f64(from.dtype, bytes, values);
    for (const DTypeInfo& target : all_dtypes()) {
      if (target.kind != DTypeKind::kFloat || target.dtype == from.dtype) continue;
      SCOPED_TRACE(std::string(from.name) + " to " + std::string(target.name));
      const Model cast = cast_tensors(model, to(target.dtype, OnOverflow::kSaturate));
      std::vector<std::byte> expected(storage_bytes(target.dtype, std::vector<std::uint64_t>{kElements}));
      const EncodeResult result = encode_f64(target.dtype, values, expected, Overflow::kSaturate);
      std::vector<std::byte> out(expected.size());
      const std::size_t step = 1000u * target.block_bytes;
      for (std::size_t at = 0; at < out.size(); at += step)
        cast.tensors[0].data->read(at, std::span(out).subspan(at, std::min(step, out.size() - at)));
      std::vector<double> got(kElements), want(kElements);
      decode_f64(target.dtype, out, got);
      decode_f64(target.dtype, expected, want);
      for (std::size_t i = 0; i < kElements; ++i)
        ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
      EXPECT_EQ(cast.tensors[0].data->overflow().elements, result.overflowed);
      EXPECT_EQ(cast.tensors[0].data->overflow().first, result.first);
    }
  }
}

// Integers.

TEST(IntegerCast, WidensExactly) {
  EXPECT_EQ(
      read_all(cast_tensors(model_with<std::int8_t>(DType::kI8, {-128, -1, 127}), tensor_to(DType::kI64)).tensors[0]),
      (bytes_of<std::int64_t>({-128, -1, 127})));
  EXPECT_EQ(read_all(cast_tensors(model_with<std::uint8_t>(DType::kU8, {0, 255}), tensor_to(DType::kI16)).tensors[0]),
            (bytes_of<std::int16_t>({0, 255})));
  EXPECT_EQ(read_all(cast_tensors(model_with<std::uint8_t>(DType::kBool, {0, 1, 7}), tensor_to(DType::kI8)).tensors[0]),
            (bytes_of<std::int8_t>({0, 1, 1})));  // any byte but zero is true
}

TEST(IntegerCast, WhatDoesNotFitIsCounted) {
  const auto cast = [](DType from, const auto& values, DType target) {
    Model model = cast_tensors(model_with(from, values), tensor_to(target, OnOverflow::kSaturate));
    auto bytes = read_all(model.tensors[0]);
    return std::pair(bytes, model.tensors[0].data->overflow());
  };
  const auto [narrow, narrow_count] = cast(
      DType::kI64, std::vector<std::int64_t>{1, 2'147'483'647, 2'147'483'648, std::numeric_limits<std::int64_t>::min()},
      DType::kI32);
  EXPECT_EQ(narrow,
            bytes_of<std::int32_t>({1, 2'147'483'647, 2'147'483'647, std::numeric_limits<std::int32_t>::min()}));
  EXPECT_EQ(narrow_count.elements, 2u);
  EXPECT_EQ(narrow_count.first, 2u);
  const auto [positive, positive_count] = cast(DType::kI32, std::vector<std::int32_t>{5, -1}, DType::kU64);
  EXPECT_EQ(positive, bytes_of<std::uint64_t>({5, 0}));
  EXPECT_EQ(positive_count.first, 1u);
  const auto [large, large_count] = cast(DType::kU64, std::vector<std::uint64_t>{~0ull, 1}, DType::kI64);
  EXPECT_EQ(large, bytes_of<std::int64_t>({std::numeric_limits<std::int64_t>::max(), 1}));
  EXPECT_EQ(large_count.elements, 1u);
  const auto [flags, flags_count] = cast(DType::kI32, std::vector<std::int32_t>{0, 1, 2, -1}, DType::kBool);
  EXPECT_EQ(flags, bytes_of<std::uint8_t>({0, 1, 1, 0}));
  EXPECT_EQ(flags_count.elements, 2u);
  EXPECT_NE(refusal(model_with<std::int32_t>(DType::kI32, {300}), tensor_to(DType::kU8), ErrorCode::kUnsupported)
                .find("tensor 'w': 1 of 1 values do not fit in the cast I32 to U8, the first at index 0"),
            std::string::npos);
}

// Packed types, with a tail that does not fill its byte: to bytes and back, read in parts.
TEST(IntegerCast, PackedTypesComeBack) {
  for (const DType packed : {DType::kU4, DType::kI4, DType::kU2, DType::kI2}) {
    constexpr std::size_t kElements = 3 * 4096 + 3;
    const std::size_t per_byte = info(packed).block_elements;
    std::vector<std::byte> bytes(storage_bytes(packed, std::vector<std::uint64_t>{kElements}));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 89 + 5);
    const std::size_t tail_bits = kElements % per_byte * (8 / per_byte);
    if (tail_bits != 0) bytes.back() &= static_cast<std::byte>((1u << tail_bits) - 1);
    const Model model = test::make_model({{"w", packed, {kElements}, bytes}});
    const Model back = cast_tensors(cast_tensors(model, tensor_to(DType::kI16)), tensor_to(packed));
    std::vector<std::byte> out(bytes.size());
    for (std::size_t at = 0; at < out.size(); at += 999)
      back.tensors[0].data->read(at, std::span(out).subspan(at, std::min<std::size_t>(999, out.size() - at)));
    EXPECT_TRUE(out == bytes) << name(packed);
    EXPECT_EQ(back.tensors[0].data->overflow().elements, 0u) << name(packed);
  }
}

TEST(IntegerCast, SignsOfPackedTypes) {
  const Model model = test::make_model({{"w", DType::kI4, {4}, bytes_of<std::uint8_t>({0x8f, 0x70})}});
  EXPECT_EQ(read_all(cast_tensors(model, tensor_to(DType::kI8)).tensors[0]), bytes_of<std::int8_t>({-1, -8, 0, 7}));
}

// Numbers of a graph: a cast of all weights leaves them, one by name does not.
TEST(Cast, ParametersAreCastByNameOnly) {
  Model model = test::make_model(
      {{"epsilon", DType::kF32, {1}, test::bytes_of({1e-12f})}, {"w", DType::kF32, {1}, test::bytes_of({1.f})}});
  model.tensors[0].is_parameter = true;
  CastRules rules;
  rules.dtype = DType::kF16;
  const Model all = cast_tensors(model, rules);
  EXPECT_EQ(all.tensors[0].info.dtype, DType::kF32);
  EXPECT_EQ(all.tensors[1].info.dtype, DType::kF16);
  rules.tensor_dtype.emplace_back("epsilon", DType::kBF16);
  EXPECT_EQ(cast_tensors(model, rules).tensors[0].info.dtype, DType::kBF16);
}

}  // namespace
}  // namespace wconv
