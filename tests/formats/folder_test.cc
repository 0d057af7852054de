// Hugging Face folders and sharded weights.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/model_path.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

test::TensorSpec byte_tensor(const std::string& name, unsigned char value) {
  return {name, DType::kU8, {1}, test::bytes_of<unsigned char>({value})};
}

// Two shards with one tensor each, and an index of them unless it is given.
class Shards : public testing::Test {
 protected:
  void SetUp() override {
    test::write_safetensors(dir_ / "model-00001-of-00002.safetensors", {byte_tensor("a", 1)}, {{"format", "pt"}});
    test::write_safetensors(dir_ / "model-00002-of-00002.safetensors", {byte_tensor("b", 2)}, {{"format", "pt"}});
    index(R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors")", 2);
  }
  void index(std::string_view weight_map, unsigned total = 2) {
    write_index(fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})", total, weight_map));
  }
  void write_index(std::string_view text) { test::write_file(dir_ / "model.safetensors.index.json", text); }

  void expect_refused(ErrorCode code, std::string_view words) {
    for (const std::string& path : {dir_.path().string(), dir_ / "model.safetensors.index.json"}) {
      try {
        open_model(path, {});
        ADD_FAILURE() << "not refused: " << words;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos)
            << error.what() << "\nnot: " << words;
        EXPECT_NE(std::string_view(error.what()).find("model.safetensors.index.json"), std::string_view::npos)
            << error.what();
      }
    }
  }
  void expect_warned(std::string_view code, std::string_view words) {
    const Model model = open_model(dir_.path().string(), {});
    ASSERT_EQ(model.findings.size(), 1u);
    EXPECT_EQ(model.findings[0].severity, Severity::kWarning);
    EXPECT_EQ(model.findings[0].code, code);
    EXPECT_NE(model.findings[0].message.find(words), std::string::npos) << model.findings[0].message;
  }

  test::TempDir dir_;
};

TEST_F(Shards, AreOneModel) {
  const Model model = open_model(dir_.path().string(), {});
  EXPECT_TRUE(model.findings.empty());
  EXPECT_EQ(model.format, "safetensors");
  EXPECT_EQ(model.files.size(), 2u);
  EXPECT_EQ(model.metadata.size(), 1u);
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(test::read_all(model.tensors[0]), test::bytes_of<unsigned char>({1}));
  EXPECT_EQ(test::read_all(model.tensors[1]), test::bytes_of<unsigned char>({2}));
}

TEST_F(Shards, ThatAreMissingAreNamed) {
  fs::remove(dir_ / "model-00002-of-00002.safetensors");
  expect_refused(ErrorCode::kMissing, "1 of 2 shards are missing: 'model-00002-of-00002.safetensors'");
}

TEST_F(Shards, LinksThatLeadNowhereAreAnUnfinishedDownload) {
  fs::remove(dir_ / "model-00002-of-00002.safetensors");
  fs::create_symlink("../../blobs/none", dir_ / "model-00002-of-00002.safetensors");
  expect_refused(ErrorCode::kMissing, "the download did not end");
  try {
    open_model(dir_ / "model-00002-of-00002.safetensors", {});
    ADD_FAILURE() << "was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissing);
    EXPECT_NE(std::string_view(error.what()).find("a link to a file that is not there"), std::string_view::npos);
  }
}

TEST_F(Shards, ATensorThatTheIndexNamesTwiceIsNamed) {
  index(R"("a":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors")");
  expect_refused(ErrorCode::kCorrupt, "the key 'a' stands twice");
  write_index(R"({"x":[{"k":1},{"k":2}],"y":{"k":3},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
              R"("b":"model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);  // one key in several objects
}

TEST_F(Shards, TensorThatNoShardHoldsIsNamed) {
  index(
      R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors")");
  expect_refused(ErrorCode::kCorrupt, "the index names tensors that no shard holds: 'c'");
}

TEST_F(Shards, TensorInTwoShardsIsNamed) {
  test::write_safetensors(dir_ / "model-00002-of-00002.safetensors", {byte_tensor("a", 1), byte_tensor("b", 2)});
  expect_refused(
      ErrorCode::kCorrupt,
      "tensor 'a' stands in two shards: model-00001-of-00002.safetensors and model-00002-of-00002.safetensors");
}

TEST_F(Shards, TensorsInAnotherShardThanTheIndexSays) {
  index(R"("b":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors")");
  expect_warned("wrong-shard",
                "the index names the wrong shard for 'a' (named in model-00002-of-00002.safetensors, found in "
                "model-00001-of-00002.safetensors), 'b' (named in model-00001");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);
}

TEST_F(Shards, TensorThatTheIndexDoesNotNameIsKeptWithAWarning) {
  test::write_safetensors(dir_ / "model-00002-of-00002.safetensors", {byte_tensor("b", 2), byte_tensor("extra", 3)});
  index(R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors")", 3);
  expect_warned("not-in-index", "shards hold tensors that the index does not name: 'extra'");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 3u);
}

TEST_F(Shards, WeightsThatTheIndexDoesNotNameAreNamed) {
  test::write_safetensors(dir_ / "model.safetensors", {byte_tensor("c", 1)});
  expect_warned("stray-weights", "'model.safetensors'");
}

TEST_F(Shards, StaleTotalIsAWarning) {
  index(R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors")", 999);
  expect_warned("stale-index", "the index claims 999 bytes of tensors, the shards hold 2");
}

TEST_F(Shards, TotalMayBeAFloatOrAbsent) {  // both are found on the hub
  write_index(
      R"({"metadata":{"total_size":2.0},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  EXPECT_TRUE(open_model(dir_.path().string(), {}).findings.empty());
  write_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  EXPECT_TRUE(open_model(dir_.path().string(), {}).findings.empty());
}

TEST_F(Shards, EscapingNamesAreRefusedAndNothingIsOpened) {
  for (const std::string_view name :
       {"../x.safetensors", "/etc/passwd", "sub/../../x", "", ".", "..", "C:\\\\x", "a\\u0000b"}) {
    index(fmt::format(R"("a":"{}")", name));
    expect_refused(ErrorCode::kCorrupt, "nothing was opened");
  }
}

// A cache of DVC links its files into the workspace.
TEST_F(Shards, MayHaveSeveralHardLinks) {
  fs::create_hard_link(dir_ / "model-00002-of-00002.safetensors", dir_ / "cache-of-dvc");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);
}

TEST_F(Shards, NamesThatDifferInCaseOrInTheirUnicodeFormAreOthers) {
  index(R"("a":"model-00001-of-00002.safetensors","b":"MODEL-00002-of-00002.safetensors")");
  expect_refused(ErrorCode::kMissing, "'MODEL-00002-of-00002.safetensors'");
  fs::rename(dir_ / "model-00002-of-00002.safetensors", dir_ / "caf\u00e9.safetensors");
  index("\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"cafe\u0301.safetensors\"");
  expect_refused(ErrorCode::kMissing, "1 of 2 shards are missing");
}

TEST_F(Shards, MayLieInAFolderBelow) {
  fs::create_directory(dir_ / "sub");
  fs::rename(dir_ / "model-00002-of-00002.safetensors", dir_ / "sub/2.safetensors");
  index(R"("a":"model-00001-of-00002.safetensors","b":"sub/2.safetensors")");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);
}

TEST_F(Shards, IndexThatIsNoneIsRefused) {
  for (const auto& [text, words] : {std::pair{"[]", "the index has no 'weight_map'"},
                                    {"{}", "the index has no 'weight_map'"},
                                    {"{\"weight_map\":[]}", "'weight_map' is array, not an object"},
                                    {"{\"weight_map\":{}}", "'weight_map' is empty"},
                                    {"{\"weight_map\":{\"a\":1}}", "'weight_map' names no file for tensor 'a'"},
                                    {"{", "is not JSON"},
                                    {"", "is not JSON"}}) {
    write_index(text);
    expect_refused(ErrorCode::kCorrupt, words);
  }
  write_index(std::string(1'000'000, '['));
  expect_refused(ErrorCode::kCorrupt, "the JSON nests too deeply");
}

TEST_F(Shards, WithoutAnIndexTheirNumbersTell) {
  fs::remove(dir_ / "model.safetensors.index.json");
  expect_warned("no-index", "the folder has shards but no index");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);
  fs::remove(dir_ / "model-00002-of-00002.safetensors");
  try {
    open_model(dir_.path().string(), {});
    FAIL() << "one of two shards";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissing);
    EXPECT_NE(std::string(error.what()).find("'model-00002-of-00002.safetensors'"), std::string::npos) << error.what();
  }
}

TEST_F(Shards, HaveTheMetadataOfAll) {
  test::write_safetensors(dir_ / "model-00002-of-00002.safetensors", {byte_tensor("b", 2)},
                          {{"format", "np"}, {"more", "x"}});
  expect_warned("part-metadata", "other values than the parts before it, whose are kept: 'format'");
  const Model model = open_model(dir_.path().string(), {});
  EXPECT_EQ(*model.metadata.find("format")->as_string(), "pt");
  EXPECT_EQ(*model.metadata.find("more")->as_string(), "x");
}

TEST_F(Shards, OfSeveralIndexesTheUsualOneCounts) {
  fs::copy_file(dir_ / "model.safetensors.index.json", dir_ / "model.fp16.safetensors.index.json");
  EXPECT_EQ(open_model(dir_.path().string(), {}).tensors.size(), 2u);
  fs::rename(dir_ / "model.safetensors.index.json", dir_ / "a.safetensors.index.json");
  try {
    open_model(dir_.path().string(), {});
    FAIL() << "two indexes, none of them the usual one";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string_view(error.what()).find("several indexes"), std::string_view::npos) << error.what();
  }
}

TEST_F(Shards, TheLastOneAloneIsNoModel) {
  fs::remove(dir_ / "model.safetensors.index.json");
  fs::remove(dir_ / "model-00001-of-00002.safetensors");
  EXPECT_THROW(open_model(dir_.path().string(), {}), Error);
}

TEST_F(Shards, OfTwoModelsAreNotOne) {
  fs::remove(dir_ / "model.safetensors.index.json");
  test::write_safetensors(dir_ / "other-00001-of-00001.safetensors", {byte_tensor("c", 1)});
  EXPECT_THROW(open_model(dir_.path().string(), {}), Error);
  fs::rename(dir_ / "other-00001-of-00001.safetensors", dir_ / "z.safetensors");
  EXPECT_THROW(open_model(dir_.path().string(), {}), Error);
}

TEST_F(Shards, DamageNamesTheShard) {
  fs::resize_file(dir_ / "model-00002-of-00002.safetensors", 20);
  try {
    open_model(dir_.path().string(), {});
    FAIL() << "a truncated shard";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("model-00002-of-00002.safetensors: "), std::string::npos) << error.what();
  }
}

TEST(Folder, TakesItsSideFilesAlong) {
  const test::TempDir dir;
  test::write_safetensors(dir / "model.safetensors", {byte_tensor("a", 1)});
  test::write_safetensors(dir / "adapter.safetensors", {byte_tensor("z", 1)});
  for (const std::string name :
       {"config.json", "tokenizer.json", "merges.txt", "spiece.model", "README.md", "LICENSE", "chat_template.jinja",
        "modeling_x.py", ".gitattributes", "training_args.bin", "wconv.json", "old.safetensors.wconv.json"}) {
    test::write_file(dir / name, "{\"model_type\":\"qwen2\"}");
  }
  const Model model = open_model(dir.path().string(), {});
  std::vector<std::string> names;
  for (const SideFile& side : model.side_files) names.push_back(side.name);
  EXPECT_EQ(names, (std::vector<std::string>{"LICENSE", "README.md", "chat_template.jinja", "config.json", "merges.txt",
                                             "spiece.model", "tokenizer.json"}));
  EXPECT_EQ(model.architecture, "qwen2");
  EXPECT_EQ(model.tensors.at(0).info.name, "a");
  EXPECT_EQ(model.path, dir.path().string());
}

void expect_refused(const test::TempDir& dir, ErrorCode code, std::string_view words) {
  try {
    open_model(dir.path().string(), {});
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
  }
}

TEST(Folder, OfADownloadCacheIsItsSnapshot) {
  const test::TempDir dir;
  const auto expect_refused = [&](ErrorCode code, std::string_view words) {
    try {
      open_model(dir.path().string(), {});
      ADD_FAILURE() << "not refused: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
    }
  };
  fs::create_directories(dir.path() / "blobs");
  fs::create_directories(dir.path() / "snapshots");
  expect_refused(ErrorCode::kMissing, "without a snapshot");
  for (const std::string commit : {"aaaa", "bbbb"}) {
    const auto snapshot = dir.path() / "snapshots" / commit;
    fs::create_directories(snapshot);
    test::write_safetensors((dir.path() / "blobs" / commit).string(), {byte_tensor(commit, 1)});
    fs::create_symlink("../../blobs/" + commit, snapshot / "model.safetensors");
    if (commit == "aaaa") {
      const Model only = open_model(dir.path().string(), {});
      EXPECT_EQ(only.tensors.at(0).info.name, "aaaa");
    }
  }
  expect_refused(ErrorCode::kUsage, "several snapshots ('aaaa', 'bbbb')");
  fs::create_directories(dir.path() / "refs");
  test::write_file((dir.path() / "refs" / "main").string(), "bbbb\n");
  EXPECT_EQ(open_model(dir.path().string(), {}).tensors.at(0).info.name, "bbbb");
}

TEST(Folder, ThatHoldsNoOneModelSaysSo) {
  const test::TempDir empty, several, distributed;
  expect_refused(empty, ErrorCode::kMissing, "the folder holds no weights");
  test::write_safetensors(several / "x.safetensors", {byte_tensor("a", 1)});
  test::write_safetensors(several / "y.safetensors", {byte_tensor("a", 1)});
  expect_refused(several, ErrorCode::kUsage,
                 "the folder holds several weight files ('x.safetensors', 'y.safetensors'); name the one");
  test::write_file(distributed / "__0_0.distcp", "x");
  expect_refused(distributed, ErrorCode::kUnsupported, "dcp_to_torch");
}

TEST(Folder, BrokenConfigIsAFinding) {
  const test::TempDir dir;
  test::write_safetensors(dir / "model.safetensors", {byte_tensor("a", 1)});
  test::write_file(dir / "config.json", "{\"model_type\":");
  const Model model = open_model(dir.path().string(), {});
  ASSERT_EQ(model.findings.size(), 1u);
  EXPECT_EQ(model.findings[0].code, "config");
}

TEST(RelativePath, StaysBelow) {
  for (const std::string_view path : {"a", "a/b", "a..b", "..a", "a/./b", "model.safetensors"}) {
    EXPECT_NO_THROW(check_relative_path(path, "weight_map")) << path;
  }
  for (const std::string_view path : {"", ".", "..", "../a", "a/../b", "a/..", "/a", "C:/a", "a\\b"}) {
    EXPECT_THROW(check_relative_path(path, "weight_map"), Error) << path;
  }
  EXPECT_THROW(check_relative_path(std::string_view("a\0b", 3), "weight_map"), Error);
}

}  // namespace
}  // namespace wconv
