// The bytes that the engine writes, for every thread count and on bad days.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "core/hash.h"
#include "support/support.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/format.h"
#include "wconv/numeric.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.hex();
}
std::string sha256_of_file(const std::string& path) {
  return sha256(test::bytes_of(std::span<const char>(test::read_file(path))));
}

Piece piece(std::uint64_t offset, auto content) {
  Piece made;
  made.offset = offset;
  made.content = std::move(content);
  return made;
}

// A small, an empty and two large tensors of odd sizes in a file.
Model model_on_disk(const test::TempDir& dir) {
  test::write_safetensors(dir / "in.safetensors", {{"small", DType::kU8, {3}, random_bytes(3, 1)},
                                                   {"large", DType::kU8, {9'000'001}, random_bytes(9'000'001, 2)},
                                                   {"empty", DType::kF32, {0, 7}, {}},
                                                   {"more", DType::kI16, {2'500'000}, random_bytes(5'000'000, 3)}});
  return open_model(dir / "in.safetensors", {});
}

struct Options : EngineOptions {
  explicit Options(unsigned thread_count, bool hashing = true) { threads = thread_count, hash = hashing; }
};

EngineResult write(const Model& model, const Layout& layout, const std::string& path, const EngineOptions& options) {
  Output output(path, false, false);
  EngineResult result = execute(model, layout, output, options);
  output.commit();
  return result;
}

ErrorCode code_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(Execute, GivesTheSameBytesAndDigestsForAnyNumberOfThreads) {
  const test::TempDir dir;
  const Model model = model_on_disk(dir);
  const Layout layout = find_writer("safetensors")->plan(model, {.file_name = "out.safetensors"});
  std::string first;
  for (const unsigned threads : {1u, 2u, 7u}) {
    for (const bool hash : {true, false}) {  // without: through the kernel where it can
      const std::string name = fmt::format("out-{}-{}", threads, hash), path = dir / name;
      Layout renamed = layout;
      renamed.files[0].name = name;
      const EngineResult result = write(model, renamed, path, Options(threads, hash));
      const std::string bytes = test::read_file(path);
      if (first.empty()) first = bytes;
      EXPECT_TRUE(bytes == first) << name;
      ASSERT_EQ(result.outputs.size(), 1u);
      EXPECT_EQ(result.outputs[0].bytes, bytes.size());
      if (!hash) continue;
      EXPECT_EQ(result.outputs[0].sha256, sha256_of_file(path));
      EXPECT_EQ(result.inputs[0].sha256, sha256_of_file(dir / "in.safetensors"));
      for (std::size_t t = 0; t < model.tensors.size(); ++t) {
        EXPECT_EQ(result.tensors[t].sha256, sha256(test::read_all(model.tensors[t]))) << model.tensors[t].info.name;
      }
    }
  }
  const Model back = open_model(dir / "out-1-true", {});
  for (const Tensor& tensor : model.tensors) {
    EXPECT_TRUE(test::read_all(back.tensors[static_cast<std::size_t>(find_tensor(back, tensor.info.name))]) ==
                test::read_all(tensor));
  }
}

TEST(Execute, ZeroesEveryByteThatNobodyAskedFor) {
  const test::TempDir dir;
  const auto bytes = random_bytes(300'000, 4);
  const Model model = test::make_model({{"a", DType::kU8, {bytes.size()}, bytes}});
  Layout layout{{{"out", 9'000'000, {}}}};
  layout.files[0].pieces = {piece(5, LiteralPiece{{std::byte{1}, std::byte{2}}}),
                            piece(5'000'000, TensorPiece{0, bytes.size()})};
  for (const bool hash : {true, false}) {
    const test::TempDir fresh;
    std::string expected(9'000'000, '\0');
    expected[5] = 1;
    expected[6] = 2;
    std::memcpy(expected.data() + 5'000'000, bytes.data(), bytes.size());
    write(model, layout, fresh / "out", Options(3, hash));
    EXPECT_TRUE(test::read_file(fresh / "out") == expected);
  }
}

TEST(Execute, ACastOverManyTilesEqualsTheCastOfTheWhole) {
  const test::TempDir dir;
  std::vector<float> values(6'000'011);
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 300);
  for (float& value : values) value = normal(random);
  values[70'000] = values[5'999'999] = 1e9f;  // too large for F16
  test::write_safetensors(dir / "in.safetensors", {{"w", DType::kF32, {values.size()}, test::bytes_of(values)}});
  std::vector<std::byte> expected(2 * values.size());
  encode_f32(DType::kF16, values, expected, Overflow::kSaturate);
  CastRules rules;
  rules.dtype = DType::kF16;
  rules.on_overflow = OnOverflow::kSaturate;
  for (const unsigned threads : {1u, 2u, 7u}) {
    const Model model = cast_tensors(open_model(dir / "in.safetensors", {}), rules);
    const std::string name = fmt::format("out-{}", threads);
    const auto result =
        write(model, find_writer("safetensors")->plan(model, {.file_name = name}), dir / name, Options(threads));
    EXPECT_TRUE(test::read_all(open_model(dir / name, {}).tensors[0]) == expected) << threads;
    EXPECT_EQ(result.tensors[0].sha256, sha256(expected));
    EXPECT_EQ(result.tensors[0].overflow.elements, 2u);
    EXPECT_EQ(result.tensors[0].overflow.first, 70'000u);
  }
}

TEST(Execute, WritesTheCrcOfATensorAfterIt) {
  const auto large = random_bytes(9'000'001, 6), small = random_bytes(5, 7);
  const Model model =
      test::make_model({{"large", DType::kU8, {large.size()}, large}, {"small", DType::kU8, {5}, small}});
  const std::uint64_t end = 64 + large.size(), second = end + 4 + 60;
  Layout layout{{{"out", second + 5 + 4 + 4, {}}}};
  layout.files[0].pieces = {piece(64, TensorPiece{0, large.size(), true}), piece(end, Crc32Piece{0}),
                            piece(second, TensorPiece{1, 5, true}), piece(second + 5, Crc32Piece{2}),
                            piece(second + 9, Crc32Piece{0})};
  const auto stored = [](const std::string& file, std::size_t at) {
    std::uint32_t crc = 0;
    std::memcpy(&crc, file.data() + at, 4);
    return crc;
  };
  for (const unsigned threads : {1u, 2u, 7u}) {
    for (const bool hash : {true, false}) {
      const test::TempDir dir;
      const auto result = write(model, layout, dir / "out", Options(threads, hash));
      const std::string file = test::read_file(dir / "out");
      EXPECT_EQ(stored(file, end), crc32(0, large));
      EXPECT_EQ(stored(file, second + 5), crc32(0, small));
      EXPECT_EQ(stored(file, second + 9), crc32(0, large));
      EXPECT_TRUE(std::memcmp(file.data() + 64, large.data(), large.size()) == 0);
      EXPECT_EQ(result.outputs[0].sha256, hash ? sha256_of_file(dir / "out") : "");
    }
  }
}

TEST(Execute, KeepsRangesOfInputFiles) {
  const test::TempDir dir;
  const auto bytes = random_bytes(3'000'000, 8);
  test::write_file(dir / "config.json", bytes);
  Model model;
  model.side_files.push_back({"config.json", File::open(dir / "config.json")});
  Layout layout{{{"out", 2'500'003, {piece(3, FilePiece{{model.side_files[0].file, 400'000, 2'500'000}})}}}};
  for (const bool hash : {true, false}) {
    const test::TempDir fresh;
    write(model, layout, fresh / "out", Options(2, hash));
    const std::string file = test::read_file(fresh / "out");
    EXPECT_EQ(file.substr(0, 3), std::string(3, '\0'));
    EXPECT_TRUE(std::memcmp(file.data() + 3, bytes.data() + 400'000, 2'500'000) == 0);
  }
}

TEST(Execute, TensorsInAnEncodingOfTheirOwnHaveTheirDigest) {
  const test::TempDir dir;
  test::write_file(dir / "in", "encoded");
  const auto bytes = random_bytes(3'000'000, 10);
  Model model = test::make_model({{"w", DType::kU8, {bytes.size()}, bytes}});
  const auto file = File::open(dir / "in");
  model.files.push_back({file->path(), file->size(), file});
  Layout layout{{{"out", 7, {piece(0, FilePiece{{file, 0, 7}})}}}};
  layout.encoded = {0};
  EXPECT_EQ(write(model, layout, dir / "out", Options(1)).tensors.at(0).sha256, sha256(bytes));
  EXPECT_EQ(test::read_file(dir / "out"), "encoded");
}

TEST(Execute, TiedTensorsHaveOneDigestAndOnePiece) {
  const test::TempDir dir;
  const auto bytes = random_bytes(100, 9);
  Model model = test::make_model({{"embed", DType::kU8, {100}, bytes}, {"head", DType::kU8, {100}, {}}});
  model.tensors[1].data = model.tensors[0].data;
  Layout layout{{{"out", 100, {piece(0, TensorPiece{0, 100})}}}};
  const auto result = write(model, layout, dir / "out", Options(1));
  EXPECT_EQ(result.tensors[0].sha256, sha256(bytes));
  EXPECT_EQ(result.tensors[1].sha256, sha256(bytes));
  layout.files[0].name = "two";
  model.tensors[1].data = memory_tensor(bytes);  // no longer the same: the layout must hold it too
  EXPECT_EQ(code_of([&] { write(model, layout, dir / "two", Options(1)); }), ErrorCode::kInternal);
  EXPECT_FALSE(fs::exists(dir / "two"));
}

// Two records in a file of several tiles; the CRC of the second is wrong where `damaged`.
Model model_with_records(const std::string& path, bool damaged) {
  const auto bytes = random_bytes(9'000'000, 10);
  test::write_file(path, bytes);
  Model model;
  const auto file = File::open(path);
  model.files.push_back({path, file->size(), file});
  const auto add = [&](std::uint64_t offset, std::uint64_t size, std::string name, std::uint32_t wrong) {
    const std::uint32_t crc = crc32(0, std::span(bytes).subspan(offset, size));
    test::add_record(model, file, offset, size, crc ^ wrong, std::move(name));
    Tensor tensor;
    tensor.info = {model.checks.back().record, DType::kU8, {size}};
    tensor.data = file_tensor(file, offset, size);
    model.tensors.push_back(std::move(tensor));
  };
  add(5'000'000, 3'999'999, "data/1", damaged ? 1 : 0);
  add(100, 10, "data/0", 0);
  add(9'000'000, 0, "data/2", 0);
  return model;
}

TEST(Execute, ChecksTheRecordsOfAnArchiveWhileItConverts) {
  for (const bool hash : {true, false}) {
    const test::TempDir dir;
    const Model sound = model_with_records(dir / "sound", false), damaged = model_with_records(dir / "damaged", true);
    const Layout layout = find_writer("safetensors")->plan(sound, {.file_name = "out"});
    EXPECT_NO_THROW(write(sound, layout, dir / "out", Options(3, hash)));
    EXPECT_NO_THROW(check_records(sound, 3));
    Layout other = layout;
    other.files[0].name = "bad";
    try {
      write(damaged, other, dir / "bad", Options(3, hash));
      FAIL() << "a damaged record";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("damaged: record 'data/1' is damaged"), std::string::npos)
          << error.what();
      EXPECT_EQ(error.offset(), 5'000'000u);
    }
    EXPECT_EQ(code_of([&] { check_records(damaged, 3); }), ErrorCode::kCorrupt);
    EXPECT_EQ(dir.names(), (std::vector<std::string>{"damaged", "out", "sound"}));
  }
}

TEST(Execute, ManySmallRecordsTakeNoQuadraticTime) {
  const auto file = File::from_bytes("a.pth", std::vector<std::byte>(400'000));
  Model model;
  model.files.push_back({"a.pth", file->size(), file});
  const std::uint32_t crc = crc32(0, std::vector<std::byte>(4));
  for (std::uint64_t i = 0; i < 100'000; ++i) test::add_record(model, file, 4 * i, 4, crc, "r");
  const auto start = std::chrono::steady_clock::now();
  check_records(model, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // quadratic: minutes
}

// `change` happens to the input when the first bytes have been written.
void expect_refused_when(const std::function<void(const std::string& input)>& change, bool hash) {
  const test::TempDir dir;
  const Model model = model_on_disk(dir);
  const std::string input = dir / "in.safetensors";
  Options options(2, hash);
  bool changed = false;
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (!std::exchange(changed, true)) change(input);
  };
  try {
    write(model, find_writer("safetensors")->plan(model, {.file_name = "out"}), dir / "out", options);
    FAIL() << "the input changed during the run";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("changed during the run"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("in.safetensors"), std::string::npos) << error.what();
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>{"in.safetensors"});
}

TEST(Execute, AnInputThatShrinksIsAnErrorAndLeavesNothing) {
  for (const bool hash : {true, false}) {
    expect_refused_when([](const std::string& input) { fs::resize_file(input, 1000); }, hash);
    expect_refused_when([](const std::string& input) { fs::resize_file(input, 0); }, hash);
  }
}

TEST(Execute, AnInputThatGrowsOrIsRewrittenIsAnError) {
  for (const bool hash : {true, false}) {
    expect_refused_when([](const std::string& input) { fs::resize_file(input, fs::file_size(input) + 1); }, hash);
    expect_refused_when(
        [](const std::string& input) {
          fs::last_write_time(input, fs::last_write_time(input) + std::chrono::seconds(5));
        },
        hash);
  }
}

TEST(Execute, AnInterruptedRunLeavesNothing) {
  for (const bool hash : {true, false}) {
    const test::TempDir dir;
    const Model model = model_on_disk(dir);
    std::atomic<int> signal = 0;
    Options options(2, hash);
    options.interrupted = &signal;
    options.progress = [&](std::uint64_t, std::uint64_t) { signal = 2; };
    const Layout layout = find_writer("safetensors")->plan(model, {.file_name = "out"});
    EXPECT_EQ(code_of([&] { write(model, layout, dir / "out", options); }), ErrorCode::kInterrupted);
    EXPECT_EQ(dir.names(), std::vector<std::string>{"in.safetensors"});
    EXPECT_EQ(code_of([&] { check_records(model_with_records(dir / "records", false), 2, &signal); }),
              ErrorCode::kInterrupted);
  }
}

TEST(Execute, ReportsProgressUpToTheEnd) {
  const test::TempDir dir;
  const Model model = model_on_disk(dir);
  const Layout layout = find_writer("safetensors")->plan(model, {.file_name = "out"});
  std::uint64_t last = 0;
  Options options(4);
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, layout.files[0].size);
    last = done;
  };
  write(model, layout, dir / "out", options);
  EXPECT_EQ(last, layout.files[0].size);
}

TEST(MaxMemory, IsObeyedByTheWholeProgram) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  const test::TempDir dir;
  constexpr std::uint64_t kSize = 100 << 20, kLimit = 32 << 20;
  test::write_safetensors(dir / "in.safetensors", {{"w", DType::kU8, {kSize}, std::vector<std::byte>(kSize)}});
  // A shell in between: a child counts the memory that its parent had before exec as its own.
  const auto run =
      test::run({"sh", "-c", "\"$@\"; exit $?", "sh", WCONV_BINARY, "--json", "--threads", "7", "--max-memory", "32MiB",
                 "convert", dir / "in.safetensors", "-o", dir / "out.safetensors"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_LE(nlohmann::json::parse(run.out).at("peak_memory_bytes").get<std::uint64_t>(), kLimit);
}

TEST(MaxMemory, TooLittleIsRefusedBeforeAnythingIsMade) {
  const test::TempDir dir;
  const Model model = model_on_disk(dir);
  const Layout layout = find_writer("safetensors")->plan(model, {.file_name = "out"});
  Options options(2);
  options.max_memory = 1 << 20;
  EXPECT_EQ(code_of([&] { planned_memory(layout, model, options); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { write(model, layout, dir / "out", options); }), ErrorCode::kUsage);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"in.safetensors"});
  options.max_memory = 40 << 20;
  EXPECT_LE(planned_memory(layout, model, options), options.max_memory);
}

}  // namespace
}  // namespace wconv
