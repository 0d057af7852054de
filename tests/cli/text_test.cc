// What people read: help, version, escapes, --quiet and -v.
#include <gtest/gtest.h>

#include "support/support.h"

namespace wconv::test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Help, NamesEveryVerbAndGoesToStdout) {
  const RunResult result = wconv({"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  for (const char* verb : {"inspect", "convert", "verify", "Exit status"}) EXPECT_TRUE(has(result.out, verb)) << verb;
}

class VerbHelp : public testing::TestWithParam<std::pair<const char*, std::vector<const char*>>> {};

TEST_P(VerbHelp, ListsItsOptionsAndTheGlobalOnes) {
  const auto& [verb, options] = GetParam();
  const RunResult result = wconv({verb, "--help"});
  EXPECT_EQ(result.status, 0);
  for (const char* option : options) EXPECT_TRUE(has(result.out, option)) << option;
  for (const char* option : {"--threads", "--max-memory", "--json", "--quiet", "--verbose", "--color"}) {
    EXPECT_TRUE(has(result.out, option)) << option;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, VerbHelp,
    testing::Values(std::pair("inspect", std::vector<const char*>{"--tensors GLOB", "--stats", "--hash", "--key PATH"}),
                    std::pair("convert",
                              std::vector<const char*>{
                                  "--output OUT", "--to FORMAT", "--dtype T", "--tensor-dtype GLOB=T", "--include GLOB",
                                  "--exclude GLOB", "--strip-prefix P", "--rename REGEX=REPLACEMENT", "--key PATH",
                                  "--shard-size SIZE", "--set KEY=VALUE", "--set-file KEY=PATH", "--unset KEY",
                                  "--force", "--dry-run", "--no-manifest", "--on-overflow"}),
                    std::pair("verify", std::vector<const char*>{"--keys", "--tensors", "--max-rmse X",
                                                                 "--min-cosine X", "--manifest"})),
    [](const auto& parameter) { return std::string(parameter.param.first); });

TEST(Version, NamesTheKernels) {
  EXPECT_EQ(wconv({"--version"}, {"WCONV_KERNELS=scalar"}).out, "wconv 0.1.0 (scalar)\n");
  EXPECT_TRUE(wconv({"--version"}, {"WCONV_KERNELS="}).out.starts_with("wconv 0.1.0 ("));
}

TEST(GlobalOptions, StandBeforeOrAfterTheVerb) {
  const std::string model = WCONV_TEST_DATA "/models/kjv-qwen2";
  const std::string before = wconv({"--json", "--threads", "1", "inspect", model}).out;
  EXPECT_EQ(before, wconv({"inspect", model, "--threads", "1", "--json"}).out);
  EXPECT_EQ(before, wconv({"inspect", "--json", model, "--threads=7", "--threads=1"}).out) << "the last value counts";
  EXPECT_TRUE(before.starts_with("{"));
}

TEST(RepeatableOptions, AllCount) {
  const RunResult result = wconv({"inspect", WCONV_TEST_DATA "/models/kjv-qwen2", "--tensors", "model.norm.weight",
                                  "--tensors", "*embed_tokens*"});
  EXPECT_TRUE(has(result.out, "tensors (2 of 74)")) << result.out;
}

TEST(Escapes, NoControlCharacterOfAModelReachesTheTerminal) {
  const TempDir folder;
  const std::string name = "w\x1b[2J\r\nevil\x07\x7f\xc2\x9b";
  const std::string path = write_safetensors(folder / "m\x1b.safetensors", {{name, DType::kF32, {1}, bytes_of({1.0f})}},
                                             {{"k\x1b]0;title\x07", "v\x1b[31m\nnext"}});
  const std::string other = write_safetensors(folder / "o.safetensors", {{name, DType::kF32, {1}, bytes_of({2.0f})}});
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"inspect", path},
           {"inspect", path, "--stats", "--hash"},
           {"inspect", path, "--json"},
           {"verify", path, other},
           {"verify", path, other, "--json"},
           {"convert", path, "-o", folder / "x\x1b.gguf"},
           {"convert", path, "-o", folder / "y.safetensors", "--include", "none\x1b*"}}) {
    const RunResult result = wconv(arguments);
    EXPECT_NE(result.out + result.err, "");
    for (const unsigned char c : result.out + result.err) EXPECT_TRUE((c >= 0x20 && c != 0x7f) || c == '\n') << int{c};
    EXPECT_FALSE(has(result.out + result.err, "\xc2\x9b"));
  }
}

TEST(Quiet, PrintsNoReportAndNoWarning) {
  const TempDir folder;
  const std::string model = write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {1}, bytes_of({1e6f})}});
  const std::vector<std::string> convert = {"convert",       model, "-o", folder / "o.gguf", "--dtype", "f16",
                                            "--on-overflow", "inf", "-f"};
  EXPECT_TRUE(has(wconv(convert).err, "wconv: warning: "));
  std::vector<std::string> quiet = convert;
  quiet.push_back("--quiet");
  const RunResult result = wconv(quiet);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out + result.err, "");
  EXPECT_EQ(wconv({"verify", model, model, "-q"}).out, "");
  EXPECT_NE(wconv({"-q", "inspect", folder / "none"}).err, "") << "errors are always said";
}

TEST(Verbose, AddsNotes) {
  const TempDir folder;
  const std::string model = write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {1}, bytes_of({1.0f})}});
  EXPECT_EQ(wconv({"convert", model, "-o", folder / "a.gguf"}).err, "");
  EXPECT_TRUE(has(wconv({"-v", "convert", model, "-o", folder / "b.gguf"}).err, "wconv: debug: "));
}

}  // namespace
}  // namespace wconv::test
