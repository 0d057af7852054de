#include "wconv/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "core/hash.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/format.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

test::TensorSpec f32(const std::string& name, const std::vector<float>& values, std::vector<std::uint64_t> shape = {}) {
  if (shape.empty()) shape = {values.size()};
  return {name, DType::kF32, std::move(shape), test::bytes_of(values)};
}
test::TensorSpec encoded(const std::string& name, DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(storage_bytes(dtype, std::vector<std::uint64_t>{values.size()}));
  encode_f32(dtype, values, bytes, Overflow::kInfinity);
  return {name, dtype, {values.size()}, std::move(bytes)};
}
std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

VerifyReport compare(const std::vector<test::TensorSpec>& a, const std::vector<test::TensorSpec>& b,
                     VerifyOptions options = {}) {
  return verify(test::make_model(a), test::make_model(b), options);
}
TensorComparison compare_one(const test::TensorSpec& a, const test::TensorSpec& b, VerifyOptions options = {}) {
  return compare({a}, {b}, std::move(options)).tensors.at(0);
}
bool explains(const VerifyReport& report, std::string_view words) {
  for (const std::string& text : report.explanations) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

TEST(Verify, EqualModelsAreEqual) {
  const auto values = random_values(300'000, 1);
  const VerifyReport report = compare({f32("a", values), f32("b", {1})}, {f32("b", {1}), f32("a", values)});
  EXPECT_TRUE(report.equal);
  ASSERT_EQ(report.tensors.size(), 2u);
  EXPECT_EQ(report.tensors[0].name, "a");
  EXPECT_EQ(report.tensors[0].status, "equal");
  EXPECT_TRUE(report.tensors[0].same_bits);
  EXPECT_EQ(report.tensors[0].rmse, 0);
  EXPECT_EQ(report.tensors[0].cosine, 1);
  EXPECT_EQ(report.tensors[0].snr_db, kInf);
  EXPECT_EQ(report.values, 300'001u);
  EXPECT_EQ(report.worst, "");
  EXPECT_TRUE(report.explanations.empty());
}

TEST(Verify, ValuesAreComparedAcrossDtypes) {
  std::vector<float> halves(10'000);
  for (std::size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<float>(i % 64) / 4 - 8;  // exact in every type below
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    std::vector<std::byte> bytes(halves.size() * info(dtype).block_bytes);
    const std::vector<double> wide(halves.begin(), halves.end());
    encode_f64(dtype, wide, bytes, Overflow::kInfinity);
    const VerifyReport report = compare({f32("w", halves)}, {{"w", dtype, {halves.size()}, bytes}});
    EXPECT_EQ(report.tensors[0].status, "dtype") << name(dtype);
    EXPECT_TRUE(report.equal);
    EXPECT_TRUE(explains(
        report,
        fmt::format("1 tensor is F32 in the reference and {} in the candidate; the values are equal", name(dtype))));
  }
  EXPECT_EQ(compare_one(f32("w", {1, 2, 3}), {"w", DType::kI8, {3}, test::bytes_of<signed char>({1, 2, 3})}).status,
            "dtype");
  EXPECT_EQ(compare_one(f32("w", {1, 2, 3}), {"w", DType::kI8, {3}, test::bytes_of<signed char>({1, 2, 4})}).status,
            "different");
}

TEST(Verify, MetricsAreThoseOfTheDefinition) {
  const auto a = random_values(600'001, 2);
  const test::TensorSpec b = encoded("w", DType::kBF16, a);
  std::vector<double> decoded(a.size());
  decode_f64(DType::kBF16, b.bytes, decoded);
  long double noise = 0, aa = 0, bb = 0, ab = 0;
  double max_abs = 0;
  std::uint64_t different = 0, first = 0;
  for (std::size_t i = a.size(); i-- > 0;) {
    const long double x = a[i], y = decoded[i];
    noise += (x - y) * (x - y), aa += x * x, bb += y * y, ab += x * y;
    max_abs = std::max(max_abs, static_cast<double>(std::abs(x - y)));
    if (x != y) ++different, first = i;
  }
  const TensorComparison got = compare_one(f32("w", a), b);
  EXPECT_EQ(got.status, "different");
  EXPECT_TRUE(got.measured);
  EXPECT_EQ(got.values, a.size());
  EXPECT_EQ(got.different_values, different);
  EXPECT_EQ(got.first_difference, first);
  EXPECT_EQ(got.max_abs, max_abs);
  EXPECT_NEAR(got.rmse, static_cast<double>(std::sqrt(noise / static_cast<long double>(a.size()))), 1e-15);
  EXPECT_NEAR(got.cosine, static_cast<double>(ab / std::sqrt(aa * bb)), 1e-13);
  EXPECT_NEAR(got.snr_db, static_cast<double>(10 * std::log10(aa / noise)), 1e-9);
}

TEST(Verify, TheSameBitsForAnyNumberOfThreads) {
  const auto a = random_values(1'000'003, 3), b = random_values(1'000'003, 4);
  VerifyOptions options;
  options.threads = 1;
  const TensorComparison one = compare_one(f32("w", a), f32("w", b), options);
  for (const unsigned threads : {2u, 7u}) {
    options.threads = threads;
    const TensorComparison many = compare_one(f32("w", a), f32("w", b), options);
    EXPECT_EQ(many.rmse, one.rmse);
    EXPECT_EQ(many.cosine, one.cosine);
    EXPECT_EQ(many.snr_db, one.snr_db);
    EXPECT_EQ(many.max_abs, one.max_abs);
    EXPECT_EQ(many.different_values, one.different_values);
    EXPECT_EQ(many.first_difference, one.first_difference);
  }
}

TEST(Verify, FindsOneValueInTheLastPlace) {
  auto a = random_values(700'000, 5), b = a;
  b[699'999] = std::nextafter(b[699'999], 100.0f);
  const TensorComparison got = compare_one(f32("w", a), f32("w", b));
  EXPECT_EQ(got.status, "different");
  EXPECT_EQ(got.different_values, 1u);
  EXPECT_EQ(got.first_difference, 699'999u);
}

TEST(Thresholds, AllThatAreGivenMustHold) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {1, 2, 3, 4.002f};  // rmse 0.001, cosine just below 1
  VerifyOptions options;
  const auto status = [&](std::optional<double> max_rmse, std::optional<double> min_cosine) {
    options.max_rmse = max_rmse;
    options.min_cosine = min_cosine;
    const VerifyReport report = compare({f32("w", a)}, {f32("w", b)}, options);
    EXPECT_EQ(report.equal, report.tensors[0].status == "within");
    return report.tensors[0].status;
  };
  EXPECT_EQ(status({}, {}), "different");
  EXPECT_EQ(status(0.0011, {}), "within");
  EXPECT_EQ(status(0.0009, {}), "different");
  EXPECT_EQ(status({}, 0.999), "within");
  EXPECT_EQ(status({}, 1.0), "different");
  EXPECT_EQ(status(0.0011, 1.0), "different");
  EXPECT_EQ(status(0.0009, 0.999), "different");
  EXPECT_EQ(status(0.0011, 0.999), "within");
  EXPECT_EQ(compare({f32("w", a)}, {f32("w", b)}).worst, "w");
}

TEST(NonFinite, NanEqualsNanAndInfinityItself) {
  const VerifyReport report = compare({f32("w", {kNan, kInf, -kInf, 1})}, {f32("w", {-kNan, kInf, -kInf, 1})});
  EXPECT_EQ(report.tensors[0].status, "equal");
  EXPECT_FALSE(report.tensors[0].same_bits);
  EXPECT_TRUE(report.equal);
  EXPECT_TRUE(explains(report, "equal in value but not in every bit (the sign of a zero, or what a NaN carries): 'w'"));
}

TEST(NonFinite, ZerosAreEqual) {
  const TensorComparison got = compare_one(f32("w", {0.0f, 1}), f32("w", {-0.0f, 1}));
  EXPECT_EQ(got.status, "equal");
  EXPECT_FALSE(got.same_bits);
}

TEST(NonFinite, AMismatchIsCountedAndNoThresholdAllowsIt) {
  VerifyOptions options;
  options.max_rmse = 1e9;
  options.min_cosine = -1;
  const TensorComparison got =
      compare_one(f32("w", {1, kNan, kInf, kInf, kNan, 2}), f32("w", {1, 0, -kInf, kInf, kInf, 3}), options);
  EXPECT_EQ(got.status, "different");
  EXPECT_EQ(got.nonfinite_mismatches, 3u);
  EXPECT_EQ(got.different_values, 4u);
  EXPECT_EQ(got.first_difference, 1u);
  EXPECT_EQ(got.nans[0], 2u);
  EXPECT_EQ(got.nans[1], 0u);
  EXPECT_EQ(got.max_abs, std::numeric_limits<double>::infinity()) << "no finite number would be true";
  EXPECT_EQ(got.rmse, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(got.cosine));
  EXPECT_EQ(got.snr_db, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(
      explains(compare({f32("w", {kNan, 1})}, {f32("w", {0, 1})}),
               "'w' has 1 place where NaN or infinity stands against another value, so that no measure is finite; "
               "NaN: 1 in the reference, 0 in the candidate"));
}

TEST(NonFinite, PairsThatAgreeCountForNothing) {
  const TensorComparison got = compare_one(f32("w", {kNan, kInf, 2, 3}), f32("w", {kNan, kInf, 2, 4}));
  EXPECT_EQ(got.max_abs, 1);
  EXPECT_NEAR(got.rmse, std::sqrt(0.5), 1e-15) << "over the two finite pairs";
}

TEST(Integers, Of64BitsAreComparedExactly) {
  const auto i64 = [](std::vector<std::int64_t> values) {
    return test::TensorSpec{"w", DType::kI64, {values.size()}, test::bytes_of(values)};
  };
  constexpr std::int64_t kBig = (std::int64_t{1} << 62) + 1;
  TensorComparison got = compare_one(i64({kBig, 5}), i64({kBig + 1, 5}));
  EXPECT_EQ(got.status, "different") << "both are the same in binary64";
  EXPECT_EQ(got.max_abs, 1);
  EXPECT_EQ(got.different_values, 1u);
  const std::vector<std::uint64_t> same = {static_cast<std::uint64_t>(kBig), 5};
  EXPECT_EQ(compare_one(i64({kBig, 5}), {"w", DType::kU64, {2}, test::bytes_of(same)}).status, "dtype");
  const std::vector<std::uint64_t> wrapped = {static_cast<std::uint64_t>(-1)};
  EXPECT_EQ(compare_one(i64({-1}), {"w", DType::kU64, {1}, test::bytes_of(wrapped)}).status, "different");
}

TEST(Integers, Of64BitsThatStandAgainstNanCountOnce) {
  const test::TensorSpec integers{"w", DType::kI64, {2}, test::bytes_of(std::vector<std::int64_t>{5, 7})};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const test::TensorSpec floats{"w", DType::kF64, {2}, test::bytes_of(std::vector<double>{nan, 7})};
  for (const auto& [a, b] : {std::pair(integers, floats), std::pair(floats, integers)}) {
    const TensorComparison got = compare_one(a, b);
    EXPECT_EQ(got.different_values, 1u);
    EXPECT_EQ(got.nonfinite_mismatches, 1u);
  }
}

TEST(Complex, PartsAreCompared) {
  const auto c64 = [](const std::vector<float>& parts) {
    return test::TensorSpec{"w", DType::kC64, {parts.size() / 2}, test::bytes_of(parts)};
  };
  const TensorComparison got = compare_one(c64({1, 2, 3, 4}), c64({1, 2, 3, 5}));
  EXPECT_EQ(got.different_values, 1u);
  EXPECT_EQ(got.values, 4u);
  EXPECT_EQ(compare_one(c64({1, 0}), f32("w", {1})).status, "undecodable");
}

TEST(BlockTypes, AreComparedByteByByte) {
  std::vector<std::byte> block(18, std::byte{7}), other = block;
  other[17] = std::byte{8};
  const auto q4 = [](const std::vector<std::byte>& bytes) { return test::TensorSpec{"w", DType::kQ4_0, {32}, bytes}; };
  EXPECT_EQ(compare_one(q4(block), q4(block)).status, "equal");
  EXPECT_FALSE(compare_one(q4(block), q4(block)).measured);
  EXPECT_EQ(compare_one(q4(block), q4(other)).status, "different");
  const VerifyReport report = compare({q4(block)}, {f32("w", std::vector<float>(32))});
  EXPECT_EQ(report.tensors[0].status, "undecodable");
  EXPECT_FALSE(report.equal);
  EXPECT_TRUE(explains(report, "these values cannot be decoded, so nothing is known about them: 'w'"));
}

TEST(Names, MissingAndUnexpectedAreListed) {
  const VerifyReport report =
      compare({f32("a", {1}), f32("lm_head.weight", {2})}, {f32("a", {1}), f32("lm_haed.weight", {2})});
  EXPECT_FALSE(report.equal);
  EXPECT_EQ(report.missing, std::vector<std::string>{"lm_head.weight"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"lm_haed.weight"});
  EXPECT_TRUE(explains(
      report, "'lm_head.weight' is missing in the candidate; the nearest name that it has is 'lm_haed.weight'"));
}

TEST(Names, APrefixOnOneSideIsExplainedAndTheValuesCompared) {
  const std::vector<test::TensorSpec> plain = {f32("a", {1}), f32("b.w", {2})},
                                      prefixed = {f32("module.a", {1}), f32("module.b.w", {3})};
  const VerifyReport report = compare(plain, prefixed);
  EXPECT_FALSE(report.equal);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  ASSERT_EQ(report.tensors.size(), 2u);
  EXPECT_EQ(report.tensors[0].candidate_name, "module.a");
  EXPECT_EQ(report.tensors[0].status, "equal");
  EXPECT_EQ(report.tensors[1].status, "different");
  EXPECT_TRUE(explains(report, "every name of the candidate has the prefix 'module.', which the reference lacks"));
  EXPECT_TRUE(explains(report, "wconv convert --strip-prefix module."));
  const VerifyReport back = compare(prefixed, plain);
  EXPECT_TRUE(explains(back, "every name of the reference has the prefix 'module.', which the candidate lacks"));
  EXPECT_TRUE(explains(back, "--rename '^=module.'"));
}

TEST(Names, AnotherPrefixOnEachSideIsExplained) {
  const VerifyReport report = compare({f32("encoder.0.w", {1}), f32("encoder.0.b", {2}), f32("head", {3})},
                                      {f32("backbone.0.w", {1}), f32("backbone.0.b", {2}), f32("head", {3})});
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_TRUE(
      explains(report, "2 names of the candidate have the prefix 'backbone.' where the reference has 'encoder.'"));
  EXPECT_TRUE(explains(report, "--rename '^backbone\\.=encoder.'"));
}

TEST(Names, EqualModelsUnderAPrefixAreStillNotEqual) {
  EXPECT_FALSE(compare({f32("a", {1})}, {f32("model.a", {1})}).equal);
}

TEST(Names, ATiedTensorThatIsNotWrittenIsExplained) {
  Model reference = test::make_model({f32("embed.weight", {1, 2}), f32("lm_head.weight", {})});
  reference.tensors[1] = reference.tensors[0];
  reference.tensors[1].info.name = "lm_head.weight";
  const VerifyReport report = verify(reference, test::make_model({f32("embed.weight", {1, 2})}), {});
  EXPECT_EQ(report.missing, std::vector<std::string>{"lm_head.weight"});
  EXPECT_TRUE(explains(report, "'lm_head.weight' is tied to 'embed.weight' in the reference"));
}

TEST(Names, OnlyTheKeysAreReadWhenAsked) {
  class Unreadable final : public TensorData {
    std::uint64_t size_bytes() const override { return 4; }
    void read(std::uint64_t, std::span<std::byte>) const override { fail(ErrorCode::kInternal, "values were read"); }
  };
  Model model = test::make_model({f32("a", {1})});
  model.tensors[0].data = std::make_shared<Unreadable>();
  VerifyOptions options;
  options.keys_only = true;
  EXPECT_TRUE(verify(model, model, options).equal);
  EXPECT_FALSE(verify(model, model, options).tensors[0].measured);
  Model other = test::make_model({f32("a", {1, 2})});
  EXPECT_EQ(verify(model, other, options).tensors[0].status, "shape");
  options.keys_only = false;
  EXPECT_THROW(verify(model, model, options), Error);
}

TEST(Shapes, ATransposedTensorIsRecognised) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, t = {1, 4, 2, 5, 3, 6};
  const VerifyReport report = compare({f32("w", a, {2, 3})}, {f32("w", t, {3, 2})});
  EXPECT_EQ(report.tensors[0].status, "transposed");
  EXPECT_FALSE(report.equal);
  EXPECT_TRUE(explains(report, "1 tensor is transposed in the candidate, with the same values: 'w'"));
  EXPECT_EQ(compare({f32("w", {1, 2, 3, 4}, {2, 2})}, {f32("w", {1, 3, 2, 4}, {2, 2})}).tensors[0].status,
            "transposed");
  auto wrong = t;
  wrong[5] = 7;
  const VerifyReport other = compare({f32("w", a, {2, 3})}, {f32("w", wrong, {3, 2})});
  EXPECT_EQ(other.tensors[0].status, "shape");
  EXPECT_TRUE(
      explains(other, "'w' is [2, 3] in the reference and [3, 2] in the candidate: reversed, perhaps transposed"));
}

TEST(Shapes, ALargeTransposedTensorThatDiffersInOneValueIsNot) {
  const std::uint64_t rows = 700, columns = 900;
  const auto a = random_values(rows * columns, 6);
  std::vector<float> t(a.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) t[c * rows + r] = a[r * columns + c];
  }
  EXPECT_EQ(compare_one(f32("w", a, {rows, columns}), f32("w", t, {columns, rows})).status, "transposed");
  t[123'457] += 1;  // not among those that are looked at first
  EXPECT_EQ(compare_one(f32("w", a, {rows, columns}), f32("w", t, {columns, rows})).status, "shape");
}

TEST(Shapes, TheSameValuesInAnotherShapeAreExplained) {
  const VerifyReport report = compare({f32("w", {1, 2, 3, 4, 5, 6}, {2, 3})}, {f32("w", {1, 2, 3, 4, 5, 6}, {6, 1})});
  EXPECT_EQ(report.tensors[0].status, "shape");
  EXPECT_FALSE(report.equal);
  EXPECT_TRUE(explains(
      report, "'w' is [2, 3] in the reference and [6, 1] in the candidate: the same values in the same order"));
  EXPECT_TRUE(explains(compare({f32("w", {1, 2})}, {f32("w", {1, 3}, {2, 1})}), "as many elements (2)"));
}

TEST(Shapes, EmptyTensorsAndScalarsCompare) {
  EXPECT_TRUE(compare({f32("s", {1}, {1}), f32("e", {}, {0, 3})}, {f32("s", {1}, {1}), f32("e", {}, {0, 3})}).equal);
  EXPECT_EQ(compare_one(f32("e", {}, {0, 3}), f32("e", {}, {3, 0})).status, "shape");
}

TEST(Verify, ADamagedRecordIsRefusedAndNotReportedAsDifferent) {
  Model good = test::make_model({f32("w", {1})}), bad = good;
  const auto file = File::from_bytes("bad.pth", std::vector<std::byte>(4));
  bad.files.push_back({"bad.pth", 4, file});
  test::add_record(bad, file, 0, 4, 12345, "data/0");
  for (const auto& [a, b] : {std::pair{&good, &bad}, {&bad, &good}}) {
    try {
      verify(*a, *b, {});
      FAIL() << "damaged";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("record 'data/0' is damaged"), std::string::npos) << error.what();
    }
  }
}

TEST(Verify, CanBeInterruptedAndTellsProgress) {
  std::atomic<int> signal = 0;
  VerifyOptions options;
  options.interrupted = &signal;
  std::uint64_t last = 0, total = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t of) { last = done, total = of; };
  const auto values = random_values(10'000, 7);
  compare_one(f32("w", values), f32("w", values), options);
  EXPECT_EQ(last, 80'000u);
  EXPECT_EQ(total, 80'000u);
  signal = 2;
  try {
    compare_one(f32("w", values), f32("w", values), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
}

}  // namespace
}  // namespace wconv
