#include "wconv/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/hash.h"
#include "support/support.h"
#include "verify/radix_select.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

std::string golden(std::string_view name) { return fmt::format("{}/verify/golden/{}", WCONV_TEST_DATA, name); }

void expect_near(double got, double want, double scale, const std::string& what) {
  EXPECT_NEAR(got, want, 1e-12 * std::max(std::abs(want), scale)) << what;
}

// `want`: what numpy says (golden/make.py). Order statistics are exact; sums may differ in the last bits.
void expect_stats(const TensorStats& got, const nlohmann::json& want, const std::string& name) {
  EXPECT_EQ(got.count, want.at("count")) << name;
  EXPECT_EQ(got.zeros, want.at("zeros")) << name;
  EXPECT_EQ(got.nans, want.at("nans")) << name;
  EXPECT_EQ(got.infinities, want.at("infinities")) << name;
  if (!want.contains("min")) {
    for (const double value : {got.min, got.max, got.mean, got.sd, got.percentiles[3]})
      EXPECT_TRUE(std::isnan(value)) << name;
    return;
  }
  EXPECT_EQ(got.min, want.at("min").get<double>()) << name;
  EXPECT_EQ(got.max, want.at("max").get<double>()) << name;
  expect_near(got.mean, want.at("mean"), want.at("sd"), name + " mean");
  expect_near(got.sd, want.at("sd"), 0, name + " sd");
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    EXPECT_EQ(got.percentiles[i], want.at("percentiles").at(i).get<double>()) << name << ' ' << kPercentiles[i];
  }
}

nlohmann::json expected() { return nlohmann::json::parse(test::read_file(golden("stats.json"))); }

TEST(Stats, EqualNumpys) {
  const auto want = expected();
  const Model model = open_model(golden("stats.safetensors"), {});
  ASSERT_EQ(model.tensors.size(), 15u);
  for (const Tensor& tensor : model.tensors) {
    expect_stats(tensor_stats(tensor, 2), want.at(tensor.info.name), tensor.info.name);
  }
}

// As `larger` in golden/make.py.
Tensor larger(DType dtype, std::size_t count) {
  std::vector<double> values(count);
  std::uint64_t state = 1;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double x = static_cast<double>(state >> 40) / (1 << 21) - 4;
    value = x * x * x;
  }
  std::vector<std::byte> bytes(count * info(dtype).block_bytes);
  encode_f64(dtype, values, bytes, Overflow::kInfinity);
  return test::make_model({{"t", dtype, {count}, std::move(bytes)}}).tensors[0];
}

// Too many to be sorted: counted digit by digit, in one, two and four passes.
TEST(Stats, OfManyValuesEqualNumpysToo) {
  const auto want = expected();
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    const std::string name = fmt::format("larger {}", wconv::name(dtype));
    expect_stats(tensor_stats(larger(dtype, 300'001), 3), want.at(name), name);
  }
}

TEST(Stats, AreTheSameBitsForAnyNumberOfThreads) {
  for (const std::size_t count : {1'000u, 1'000'003u}) {
    const Tensor tensor = larger(DType::kF32, count);
    const TensorStats one = tensor_stats(tensor, 1);
    for (const unsigned threads : {2u, 7u}) {
      const TensorStats many = tensor_stats(tensor, threads);
      EXPECT_EQ(std::memcmp(&one, &many, sizeof one), 0) << threads;
    }
  }
}

TEST(Stats, LeaveOutWhatIsNotFiniteAndTakeBothZerosForOne) {
  std::vector<float> values(100'000, -0.0f);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[6] = std::numeric_limits<float>::infinity();
  values[7] = 0.0f;
  const Tensor tensor = test::make_model({{"t", DType::kF32, {values.size()}, test::bytes_of(values)}}).tensors[0];
  const TensorStats stats = tensor_stats(tensor);
  EXPECT_EQ(stats.zeros, values.size() - 2);
  EXPECT_EQ(stats.nans, 1u);
  EXPECT_EQ(stats.infinities, 1u);
  for (const double value : {stats.min, stats.max, stats.mean, stats.sd, stats.percentiles[0], stats.percentiles[6]}) {
    EXPECT_EQ(value, 0);
    EXPECT_FALSE(std::signbit(value));
  }
}

TEST(Stats, MeanOfHugeValuesDoesNotOverflow) {
  const std::vector<double> values(1000, 1e308);
  const Tensor tensor = test::make_model({{"t", DType::kF64, {values.size()}, test::bytes_of(values)}}).tensors[0];
  EXPECT_DOUBLE_EQ(tensor_stats(tensor).mean, 1e308);
}

TEST(Stats, PackedTypesAreDecoded) {
  const Tensor tensor = test::make_model({{"t", DType::kF4, {2, 2}, test::bytes_of<unsigned char>({0x72, 0xf0})}})
                            .tensors[0];  // 1 6 0 -6
  const TensorStats stats = tensor_stats(tensor);
  EXPECT_EQ(stats.count, 4u);
  EXPECT_EQ(stats.min, -6);
  EXPECT_EQ(stats.max, 6);
  EXPECT_EQ(stats.mean, 0.25);
}

TEST(Stats, BlockTypesHaveNone) {
  EXPECT_FALSE(has_stats(DType::kQ4_K));
  const Tensor tensor = test::make_model({{"t", DType::kQ4_0, {32}, std::vector<std::byte>(18)}}).tensors[0];
  try {
    tensor_stats(tensor);
    FAIL() << "Q4_0";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.tensor(), "t");
  }
}

TEST(Stats, CanBeInterrupted) {
  const std::atomic<int> signal = 2;
  try {
    tensor_stats(larger(DType::kF32, 100'000), 2, &signal);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
}

TEST(RadixSelect, FindsEveryRank) {
  using namespace verify_detail;
  std::mt19937_64 random(4);
  for (const auto& [width, passes] : {std::pair{KeyWidth::k16, 1}, {KeyWidth::k32, 2}, {KeyWidth::k64, 4}}) {
    std::vector<double> values(500);
    for (double& value : values) {
      value = std::bit_cast<double>(random());
      if (!std::isfinite(value)) value = 0;
      if (width == KeyWidth::k32)
        value = static_cast<float>(std::ldexp(value, -static_cast<int>(std::ilogb(value == 0 ? 1 : value))));
      if (width == KeyWidth::k16)
        value =
            std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7f80) << 16 | (random() % 2 ? 0x80000000 : 0));
    }
    std::vector<std::uint64_t> ranks(values.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
    RadixSelect select(width);
    int done = 0;
    do {
      auto counts = select.take();
      select.add(*counts, values);
      select.give(std::move(counts));
      select.end_pass(ranks);
      ++done;
    } while (!select.done());
    EXPECT_EQ(done, passes);
    std::sort(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(select.value(i), values[i]) << i;
  }
}

TEST(Measure, GivesDigestsOfTensorsAndFilesAndMeasuresTiedOnesOnce) {
  const test::TempDir dir;
  const auto bytes = test::bytes_of({1.0f, 2.0f});
  test::write_safetensors(dir / "m.safetensors", {{"a", DType::kF32, {2}, bytes},
                                                  {"q", DType::kU8, {3'000'000}, std::vector<std::byte>(3'000'000)}});
  Model model = open_model(dir / "m.safetensors", {});
  model.tensors.push_back(model.tensors[0]);
  MeasureOptions options;
  options.stats = options.digests = true;
  options.threads = 2;
  std::uint64_t last = 0, total = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t of) { last = done, total = of; };
  const std::vector<std::size_t> chosen = {2, 1, 0};
  const ModelMeasures measures = measure(model, chosen, options);
  ASSERT_EQ(measures.tensors.size(), 3u);
  Sha256 a;
  a.update(bytes);
  EXPECT_EQ(measures.tensors[0].sha256, a.hex());
  EXPECT_EQ(measures.tensors[2].sha256, measures.tensors[0].sha256);
  EXPECT_EQ(measures.tensors[0].sha256, tensor_digest(model.tensors[0]));
  EXPECT_EQ(measures.tensors[2].stats->mean, 1.5);
  EXPECT_EQ(measures.tensors[1].stats->zeros, 3'000'000u);
  ASSERT_EQ(measures.file_sha256.size(), 1u);
  Sha256 file;
  file.update(test::bytes_of(std::span<const char>(test::read_file(dir / "m.safetensors"))));
  EXPECT_EQ(measures.file_sha256[0], file.hex());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, std::filesystem::file_size(dir / "m.safetensors") + 2 * (8 + 3'000'000));
}

// Of the same size, as an editor or another run might leave it.
TEST(Measure, RefusesAFileThatChangesMeanwhile) {
  for (const bool digests : {false, true}) {
    const test::TempDir dir;
    const std::string path = test::write_safetensors(
        dir / "m.safetensors",
        {{"a", DType::kF32, {2}, test::bytes_of({1.0f, 2.0f})}, {"b", DType::kF32, {1}, test::bytes_of({3.0f})}});
    const Model model = open_model(path, {});
    MeasureOptions options;
    options.stats = !digests;
    options.digests = digests;
    options.threads = 1;
    const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(1);
    options.progress = [&](std::uint64_t, std::uint64_t) { std::filesystem::last_write_time(path, later); };
    const std::vector<std::size_t> chosen = {0, 1};
    try {
      measure(model, chosen, options);
      ADD_FAILURE() << "it was not noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_NE(std::string(error.what()).find("changed during the run"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace wconv
