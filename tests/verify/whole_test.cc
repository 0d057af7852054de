// Is one model whole?
#include <gtest/gtest.h>

#include <filesystem>

#include "../formats/pytorch/build.h"
#include "core/hash.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/format.h"
#include "wconv/verify.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

test::TensorSpec f32(const std::string& name, float value) { return {name, DType::kF32, {1}, test::bytes_of({value})}; }

WholeReport check(const std::string& path, bool require_manifest = false) {
  WholeOptions options;
  options.threads = 2;
  options.require_manifest = require_manifest;
  return check_whole(open_model(path, {}), options);
}

std::string problem_of(const std::string& path) {
  const WholeReport report = check(path);
  EXPECT_EQ(report.problems.size(), 1u) << path;
  return report.problems.empty() ? "" : report.problems[0].message;
}

TEST(Whole, AModelByItselfIsWhole) {
  const test::TempDir dir;
  test::write_safetensors(dir / "m.safetensors", {f32("a", 1)});
  const WholeReport report = check(dir / "m.safetensors");
  EXPECT_TRUE(report.problems.empty());
  EXPECT_FALSE(report.manifest);
  EXPECT_EQ(report.records, 0u);
  EXPECT_EQ(report.bytes, fs::file_size(dir / "m.safetensors"));
}

TEST(Whole, TheManifestIsCheckedWhereThereIsOne) {
  const test::TempDir dir;
  test::write_safetensors(dir / "in.safetensors", {f32("a", 1)});
  try {
    check(dir / "in.safetensors", true);
    FAIL() << "there is no manifest";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissing);
  }
  const auto run = test::wconv({"convert", dir / "in.safetensors", "-o", dir / "out.safetensors"});
  ASSERT_EQ(run.status, 0) << run.err;
  WholeReport report = check(dir / "out.safetensors", true);
  EXPECT_TRUE(report.manifest);
  EXPECT_TRUE(report.problems.empty());
  test::write_safetensors(dir / "out.safetensors", {f32("a", 2)});
  report = check(dir / "out.safetensors");
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].file, "out.safetensors");
}

TEST(Whole, TheIndexOfShardsIsChecked) {
  const test::TempDir dir;
  test::write_safetensors(dir / "1.safetensors", {f32("a", 1)});
  test::write_safetensors(dir / "2.safetensors", {f32("b", 1)});
  const std::string index = dir / "model.safetensors.index.json";
  test::write_file(index, R"({"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  EXPECT_TRUE(check(index).problems.empty());
  test::write_file(index, R"({"metadata":{"total_size":9},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  EXPECT_NE(problem_of(index).find("the index claims 9 bytes"), std::string::npos);
  test::write_file(index, R"({"weight_map":{"a":"2.safetensors","b":"1.safetensors"}})");
  EXPECT_NE(problem_of(index).find("the wrong shard for 'a' (named in 2.safetensors, found in 1.safetensors), 'b'"),
            std::string::npos);
}

TEST(Whole, TiedWeightsFitTheConfig) {
  const auto folder = [](const test::TempDir& dir, const std::vector<test::TensorSpec>& tensors,
                         std::string_view config) {
    test::write_safetensors(dir / "model.safetensors", tensors);
    test::write_file(dir / "config.json", config);
    return dir.path().string();
  };
  constexpr std::string_view kTied = R"({"architectures":["Qwen2ForCausalLM"],"tie_word_embeddings":true})";
  constexpr std::string_view kUntied = R"({"architectures":["Qwen2ForCausalLM"],"tie_word_embeddings":false})";
  const test::TensorSpec embed = f32("model.embed_tokens.weight", 1), same = f32("lm_head.weight", 1),
                         other = f32("lm_head.weight", 2);
  const test::TempDir a, b, c, d, e, f;
  EXPECT_TRUE(check(folder(a, {embed}, kTied)).problems.empty());
  EXPECT_TRUE(check(folder(b, {embed, same}, kTied)).problems.empty());
  EXPECT_TRUE(check(folder(c, {embed, other}, kUntied)).problems.empty());
  EXPECT_NE(
      problem_of(folder(d, {embed, other}, kTied)).find("tied to 'model.embed_tokens.weight', but its values differ"),
      std::string::npos);
  EXPECT_NE(problem_of(folder(e, {embed}, kUntied)).find("it is missing"), std::string::npos);
  EXPECT_TRUE(
      check(folder(f, {embed}, R"({"architectures":["BertModel"],"tie_word_embeddings":false})")).problems.empty());
}

TEST(Whole, EveryRecordAndEveryByteIsRead) {
  const test::TempDir dir;
  const std::vector<std::byte> bytes(3'000'000, std::byte{5});
  test::write_file(dir / "m.pth", bytes);
  Model model;
  const auto file = File::open(dir / "m.pth");
  model.path = dir / "m.pth";
  model.files.push_back({model.path, file->size(), file});
  test::add_record(model, file, 10, 2'000'000, crc32(0, std::span(bytes).first(2'000'000)), "data/0");
  WholeReport report = check_whole(model, {});
  EXPECT_EQ(report.records, 1u);
  EXPECT_EQ(report.bytes, bytes.size());
  model.checks[0].crc32 ^= 1;
  EXPECT_THROW(check_whole(model, {}), Error);
  model.checks.clear();
  fs::resize_file(dir / "m.pth", 2'999'999);
  try {
    check_whole(model, {});
    FAIL() << "the last byte is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
  }
}

// A deflated record has no checksum of its stored bytes: it is unpacked.
TEST(Whole, RecordsThatNoTensorLiesInAreChecked) {
  const test::TempDir dir;
  test::write_safetensors(dir / "in.safetensors", {f32("a", 1)});
  const std::string path = dir / "m.pth";
  ASSERT_EQ(test::wconv({"convert", dir / "in.safetensors", "-o", path, "--no-manifest"}).status, 0);
  std::string bytes = test::read_file(path);
  const std::size_t version = bytes.find("3\n", bytes.find("archive/version"));
  ASSERT_NE(version, std::string::npos);
  EXPECT_TRUE(check(path).problems.empty());
  bytes[version] = '4';
  test::write_file(path, bytes);
  EXPECT_THROW(check(path), Error);
}

TEST(Whole, DeflatedRecordsAreUnpacked) {
  const test::TempDir dir;
  const auto write = [&](const test::ZipEntry& data) {
    test::write_file(
        dir / "m.pth",
        test::make_zip({{"a/data.pkl", test::pickle_of(test::dict_op({{"w", test::tensor_op()}}))}, data}));
  };
  write({"a/data/0", test::kFloats, true});
  EXPECT_TRUE(check(dir / "m.pth").problems.empty());
  write({"a/data/0", test::kFloats, true, 0, 0, 0xffff, "", 0, 1});
  EXPECT_THROW(check(dir / "m.pth"), Error);
}

}  // namespace
}  // namespace wconv
