// What an earlier run, or another tool, left under the output's name: refused, or with --force removed; never left
// beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

const std::string kBase = "m.safetensors";
const std::string kIndex = "m.safetensors.index.json", kManifest = "m.safetensors.wconv.json";

std::string shard(int number, int of) {
  return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(of) + ".safetensors";
}

class EarlierOutput : public testing::Test {
 protected:
  RunResult convert(const std::string& input, std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", input, "-o", folder_ / kBase});
    return wconv(options);
  }
  void make_shards(const std::string& size) {
    const RunResult result = convert(input_, {"--shard-size", size});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  void expect_refused(const RunResult& result, const std::string& text) {
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("--force"), std::string::npos) << result.err;
  }

  TempDir input_folder_, folder_;
  std::string input_ = write_safetensors(input_folder_ / "in.safetensors", {{"a", DType::kF32, {1}, bytes_of({1.0f})},
                                                                            {"b", DType::kF32, {1}, bytes_of({2.0f})},
                                                                            {"c", DType::kF32, {1}, bytes_of({3.0f})}});
};

TEST_F(EarlierOutput, OneFileInThePlaceOfShards) {
  make_shards("4B");
  const Names before = folder_.names();
  ASSERT_EQ(before, Names({shard(1, 3), shard(2, 3), shard(3, 3), kIndex, kManifest}));
  expect_refused(convert(input_, {}), "'" + kIndex + "', '" + shard(1, 3) + "', '" + shard(2, 3) + "' and 1 more");
  EXPECT_EQ(folder_.names(), before);
  const RunResult result = convert(input_, {"--force"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find(kIndex + "'"), std::string::npos) << "it says what it removes: " << result.err;
  EXPECT_EQ(folder_.names(), Names({kBase, kManifest}));
  EXPECT_EQ(wconv({"verify", input_, folder_ / kBase}).status, 0);
}

TEST_F(EarlierOutput, ShardsInThePlaceOfOneFile) {
  ASSERT_EQ(convert(input_, {}).status, 0);
  expect_refused(convert(input_, {"--shard-size", "8B"}), "'" + kBase + "'");
  EXPECT_EQ(convert(input_, {"--shard-size", "8B", "--force"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({shard(1, 2), shard(2, 2), kIndex, kManifest}));
}

TEST_F(EarlierOutput, ShardsInThePlaceOfOtherShards) {
  make_shards("4B");
  EXPECT_EQ(convert(input_, {"--shard-size", "8B", "--force"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({shard(1, 2), shard(2, 2), kIndex, kManifest}));
  EXPECT_EQ(wconv({"verify", input_, folder_ / kIndex}).status, 0);
}

TEST_F(EarlierOutput, TheInputMayBeWhatIsReplaced) {
  make_shards("4B");
  const RunResult result = convert(folder_ / kIndex, {"--force"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(folder_.names(), Names({kBase, kManifest}));
  EXPECT_EQ(wconv({"verify", input_, folder_ / kBase}).status, 0);
}

TEST_F(EarlierOutput, NothingIsRemovedWhenTheRunFails) {
  make_shards("4B");
  const Names before = folder_.names();
  write_safetensors(input_, {{"a", DType::kF32, {1}, bytes_of({1e30f})}});
  EXPECT_EQ(convert(input_, {"--force", "--dtype", "f16"}).status, 65);
  EXPECT_EQ(convert(input_, {"--force", "--dry-run"}).status, 0);
  EXPECT_EQ(folder_.names(), before);
}

// Only names that wconv itself gives are removed, whatever the index says.
TEST_F(EarlierOutput, OtherFilesStay) {
  write_file(folder_ / kIndex, R"({"weight_map":{"a":"notes.txt","b":"../in.safetensors","c":"m-1-of-2.safetensors",)"
                               R"("d":"n-00001-of-00002.safetensors","e":"m-00001-of-00002.safetensors"}})");
  const Names kept = {"m-1-of-2.safetensors", "n-00001-of-00002.safetensors", "notes.txt", shard(2, 2)};
  for (const std::string& name : kept) write_file(folder_ / name, "x");
  write_file(folder_ / shard(1, 2), "x");
  EXPECT_EQ(convert(input_, {"--force", "--no-manifest"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({shard(2, 2), "m-1-of-2.safetensors", kBase, kept[1], "notes.txt"}));
  EXPECT_TRUE(fs::exists(input_));
}

TEST_F(EarlierOutput, AManifestThatWouldBeFalseGoes) {
  ASSERT_EQ(convert(input_, {}).status, 0);
  EXPECT_EQ(convert(input_, {"--force", "--no-manifest", "--dtype", "f16"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({kBase}));
  EXPECT_EQ(wconv({"verify", folder_ / kBase}).status, 0);
}

TEST_F(EarlierOutput, AnIndexThatIsNoneIsRemovedAlone) {
  for (const char* text : {"no JSON", "[]", R"({"weight_map":7})"}) {
    write_file(folder_ / kIndex, text);
    expect_refused(convert(input_, {}), "'" + kIndex + "'");
    EXPECT_EQ(convert(input_, {"--force"}).status, 0) << text;
    EXPECT_EQ(folder_.names(), Names({kBase, kManifest}));
    fs::remove(folder_ / kBase);
    fs::remove(folder_ / kManifest);
  }
}

// The same for a name of GGUF, whose parts no index names.
TEST_F(EarlierOutput, GgufOfAnotherNumberOfParts) {
  const auto to = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", input_, "-o", folder_ / "m.gguf"});
    return wconv(options);
  };
  ASSERT_EQ(to({"--shard-size", "4B"}).status, 0);
  const Names parts = folder_.names();
  ASSERT_GE(parts.size(), 2u);
  expect_refused(to({"--no-manifest"}), "'" + parts[0] + "'");
  EXPECT_EQ(folder_.names(), parts);
  EXPECT_EQ(to({"--force"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({"m.gguf", "m.gguf.wconv.json"}));
  EXPECT_EQ(to({"--force", "--shard-size", "4B"}).status, 0);
  EXPECT_EQ(folder_.names(), parts);
}

TEST_F(EarlierOutput, CompressedInThePlaceOfShards) {
  make_shards("4B");
  const std::string packed = kBase + ".zst";
  const RunResult result = wconv({"convert", input_, "-o", folder_ / packed, "--force"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(folder_.names(), Names({packed, packed + ".wconv.json"}));
}

TEST_F(EarlierOutput, AFileThatIsNotCompressedIsAnotherOutput) {
  ASSERT_EQ(convert(input_, {}).status, 0);
  const std::string packed = kBase + ".zst";
  ASSERT_EQ(wconv({"convert", input_, "-o", folder_ / packed}).status, 0);
  EXPECT_EQ(folder_.names(), Names({kBase, kManifest, packed, packed + ".wconv.json"}));
}

TEST_F(EarlierOutput, AFolderThatIsReplacedNamesWhatIsLost) {
  const std::string model = folder_ / "model";
  ASSERT_EQ(wconv({"convert", input_, "-o", model}).status, 0);
  write_file(model + "/notes.txt", "mine");
  for (const bool dry : {true, false}) {
    std::vector<std::string> command = {"convert", input_, "-o", model, "--force"};
    if (dry) command.push_back("--dry-run");
    const RunResult result = wconv(command);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("does not have 'notes.txt'"), std::string::npos) << result.err;
  }
  EXPECT_FALSE(fs::exists(model + "/notes.txt"));
}

TEST_F(EarlierOutput, ADryRunRefusesWhatNoForceReplaces) {
  fs::create_directory(folder_ / "m.pth");
  fs::create_directory(folder_ / "programs");
  write_file(folder_ / "programs/train.py", "");
  for (const std::string out : {"none/x.gguf", "m.pth", "programs"}) {
    for (const char* force : {"--force", "--no-manifest"})
      EXPECT_EQ(wconv({"convert", input_, "-o", folder_ / out, "--to", out == "programs" ? "safetensors" : "gguf",
                       "--dry-run", force})
                    .status,
                2)
          << out;
  }
}

}  // namespace
}  // namespace wconv::test
