// Which files of a model are looked into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "concerns.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;
using test::concerns, test::kEvil, test::kGood;
using testing::Contains, testing::ElementsAre, testing::IsEmpty, testing::IsSupersetOf;

TEST(ScanFolder, EveryFileOfTheModelIsLookedInto) {
  const test::TempDir dir;
  fs::create_directories(dir / "m/sub");
  test::write_file(dir / "m/config.json", R"({"auto_map": {"AutoModel": "modeling.Model"}})");
  test::write_file(dir / "m/tokenizer_config.json",
                   R"({"chat_template": [{"name": "x", "template": "{{ a.__b__ }}"}]})");
  test::write_file(dir / "m/chat_template.jinja", "{{ cycler }}");
  test::write_file(dir / "m/modeling.py", "import os");
  test::write_file(dir / "m/sub/optimizer.bin", kEvil);
  test::write_file(dir / "m/model.safetensors.index.json", R"({"weight_map": {"w": "../../etc/passwd"}})");
  fs::create_symlink("/etc/hostname", dir / "m/out.txt");
  const ScanReport report = scan_model(dir / "m");
  EXPECT_THAT(concerns(report), IsSupersetOf({"note auto_map", "danger __b__", "danger cycler", "note modeling.py",
                                              "danger os.system", "danger \"../../etc/passwd\"", "danger path"}));
  EXPECT_TRUE(std::is_sorted(report.items.begin(), report.items.end(),
                             [](const ScanItem& a, const ScanItem& b) { return a.verdict > b.verdict; }));
  EXPECT_EQ(report.files, 6u);
}

TEST(ScanFolder, AnIndexStandsForItsFolder) {
  const test::TempDir dir;
  test::write_file(dir / "pytorch_model.bin.index.json",
                   R"({"weight_map": {"w": "pytorch_model-00001-of-00001.bin"}})");
  test::write_file(dir / "pytorch_model-00001-of-00001.bin", kEvil);
  EXPECT_THAT(concerns(scan_model(dir / "pytorch_model.bin.index.json")), Contains("danger os.system"));
}

// A zstd frame of one raw block (RFC 8878): at most 255 bytes.
std::string zstd_frame(const std::string& text) {
  return "\x28\xb5\x2f\xfd\x20" + test::le(text.size(), 1) + test::le(text.size() << 3 | 1, 3) + text;
}

TEST(ScanFolder, APackedIndexStandsForItsFolderToo) {
  const test::TempDir dir;
  test::write_file(dir / "m.index.json.zst", zstd_frame(R"({"weight_map": {"w": "w.bin"}})"));
  EXPECT_THAT(concerns(scan_model(dir / "m.index.json.zst")), IsEmpty());
  test::write_file(dir / "w.bin", kEvil);
  EXPECT_THAT(concerns(scan_model(dir / "m.index.json.zst")), Contains("danger os.system"));
}

TEST(ScanFolder, WhatAnIndexNamesIsLookedIntoWhereverItIs) {
  for (const char* name : {".cache/a.bin", ".hidden.bin", ".x/y.bin", ".git/deep/b.json", "1/2/3/4/5/c.bin"}) {
    const test::TempDir inner;
    fs::create_directories((inner.path() / name).parent_path());
    test::write_file(inner / name, kEvil);
    test::write_file(inner / "model.index.json", std::string(R"({"weight_map": {"w": ")") + name + "\"}}");
    EXPECT_THAT(concerns(scan_model(inner.path().string())), Contains("danger os.system")) << name;
    EXPECT_THAT(concerns(scan_model(inner / "model.index.json")), Contains("danger os.system")) << name;
  }
}

TEST(ScanFolder, NothingIsLeftOutSilently) {
  const test::TempDir dir;
  for (const char* folder : {".git/x", ".cache/huggingface/download", ".no_exist", ".locks", "1/2/3/4/5/6/7/8"})
    fs::create_directories(dir / folder);
  test::write_file(dir / ".gitattributes", "*.bin filter=lfs\n");
  test::write_file(dir / ".cache/huggingface/download/a.metadata", "\x01\x02\x03");
  test::write_file(dir / ".git/x/pack", kEvil);
  test::write_file(dir / ".no_exist/config.json", "");
  test::write_file(dir / "1/2/3/4/5/6/7/8/config.json", "{}");
  fs::create_directory_symlink(".", dir / "1/loop");
  EXPECT_THAT(concerns(scan_model(dir.path().string())), IsEmpty());
  fs::create_directories(dir / "1/2/3/4/5/6/7/8/9");
  EXPECT_THAT(concerns(scan_model(dir.path().string())), ElementsAre("unknown too-deep"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(concerns(scan_model(dir.path().string())), Contains("unknown unreadable"));
  test::write_file(dir / ".evil", kEvil);
  EXPECT_THAT(concerns(scan_model(dir.path().string())), Contains("danger os.system"));
}

TEST(ScanFolder, PartsOfASplitModelAreData) {
  const test::TempDir dir;
  const auto part = [](int no) { return "split-0000" + std::to_string(no) + "-of-00003.gguf"; };
  for (const int no : {1, 2, 3}) fs::copy(fs::path(WCONV_TEST_DATA) / "formats/gguf/golden" / part(no), dir / part(no));
  EXPECT_THAT(concerns(scan_model(dir.path().string())), IsEmpty());
  EXPECT_THAT(concerns(scan_model(dir / part(3))), IsEmpty());
  fs::copy(dir / part(2), dir / "x.gguf");
  EXPECT_THAT(concerns(scan_model(dir / "x.gguf")), ElementsAre("unknown missing"));
  fs::remove(dir / part(1));
  EXPECT_THAT(concerns(scan_model(dir / part(2))), ElementsAre("unknown missing"));
}

// Told from what was looked at and is not known to be data.
TEST(ScanFolder, WhatIsNotThereIsCalledMissing) {
  const test::TempDir dir;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12345\n";
  test::write_file(dir / "model.safetensors", pointer);
  test::write_file(dir / "config.json", "{}");
  EXPECT_THAT(concerns(scan_model(dir / "model.safetensors")), ElementsAre("unknown missing"));
  EXPECT_THAT(concerns(scan_model(dir.path().string())), ElementsAre("unknown missing"));
  test::write_file(dir / "model.safetensors", pointer + test::make_zip({{"a/data.pkl", kEvil}}));
  EXPECT_THAT(concerns(scan_model(dir.path().string())), Contains("danger os.system"));
  test::write_file(dir / "model.safetensors", "<!DOCTYPE html>\n<html></html>\n");
  EXPECT_THAT(concerns(scan_model(dir.path().string())), ElementsAre("unknown unknown-format"));
}

}  // namespace
}  // namespace wconv
