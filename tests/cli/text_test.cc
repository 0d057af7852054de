// What people read: help, version, escapes, --quiet and -v.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/gguf/file_builder.h"
#include "formats/onnx/proto.h"
#include "formats/pytorch/build.h"
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

const std::string kEvil = "w\x1b[2J\r\nevil\x07\x7f\xc2\x9b";

void expect_no_controls(const std::vector<std::string>& arguments) {
  const RunResult result = wconv(arguments);
  const std::string text = result.out + result.err;
  EXPECT_NE(text, "");
  for (const unsigned char c : text) EXPECT_TRUE((c >= 0x20 && c != 0x7f) || c == '\n') << int{c} << arguments[0];
  EXPECT_FALSE(has(text, "\xc2\x9b"));
}

void expect_no_controls_from_any_verb(const TempDir& folder, const std::string& path) {
  const RunResult shown = wconv({"inspect", path});
  EXPECT_TRUE(has(shown.out + shown.err, "evil")) << shown.out << shown.err;
  const std::vector<std::string> exclude = {"convert", path, "-o", folder / "none.safetensors", "--exclude", "*"};
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"inspect", path},
           {"-v", "inspect", "--stats", "--hash", path},
           {"--json", "inspect", path},
           {"inspect", "--scan", path},
           {"--json", "inspect", "--scan", path},
           {"-v", "convert", path, "-o", folder / "x.gguf", "--dry-run"},
           {"-v", "convert", path, "-o", folder / "x.pth", "--dry-run"},
           {"convert", path, "-o", folder / "x.pth", "--key", kEvil},
           {"convert", path, "-o", folder / "x.pth", "--rename", "^.*$=" + kEvil},
           {"-v", "verify", path},
           {"verify", path, WCONV_TEST_DATA "/cases/B07/unaligned_header.safetensors"},
           exclude})
    expect_no_controls(arguments);
}

TEST(Escapes, OfGgufNamesKeysAndTemplates) {
  const TempDir folder;
  using gguf::test::FileBuilder;
  FileBuilder file;
  file.head(1, 3)
      .key("general.architecture", MetaType::kString)
      .string(kEvil)
      .key(kEvil, MetaType::kString)
      .string(kEvil);
  file.key("tokenizer.chat_template", MetaType::kString).string(kEvil + "{{ x.__class__ }}");
  write_file(folder / "m.gguf", file.tensor(kEvil, {8}, gguf::test::kTypeF32, 0).pad(32).zeros(32).bytes());
  expect_no_controls_from_any_verb(folder, folder / "m.gguf");
  write_file(folder / "cut.gguf", FileBuilder().head(0, 1).string(kEvil).u32(99).bytes());
  expect_no_controls_from_any_verb(folder, folder / "cut.gguf");
}

TEST(Escapes, OfPickledNamesGlobalsAndRecords) {
  const TempDir folder;
  const std::string bad = global_op("evil\x1b[2J", "name\x07") + ")R";
  const std::string sound = text_op(kEvil) + tensor_op();
  write_file(folder / "m.pth",
             checkpoint("}(" + sound + text_op("b" + kEvil) + bad + "u", {{"archive/" + kEvil, pickle_of(bad)}}));
  expect_no_controls_from_any_verb(folder, folder / "m.pth");
  write_file(folder / "key.pth", checkpoint("}(" + text_op(kEvil) + tensor_op({"FloatStorage", kEvil}) + "u"));
  expect_no_controls_from_any_verb(folder, folder / "key.pth");
}

TEST(Escapes, OfOnnxNamesLocationsAndOperators) {
  const TempDir folder;
  using namespace onnx::test;
  const auto node = Proto().text(3, kEvil).text(4, kEvil).text(7, kEvil);  // name, operator, domain
  Proto graph = graph_of({pair(kEvil), tensor("s" + kEvil, kString, {1}).text(6, kEvil)}).message(1, node);
  write_file(folder / "m.onnx", model_of(graph).message(14, entry(kEvil, kEvil)).text(2, kEvil).bytes());
  expect_no_controls_from_any_verb(folder, folder / "m.onnx");
  write_file(folder / "far.onnx", model_with({external(kEvil, "../" + kEvil)}).bytes());
  expect_no_controls_from_any_verb(folder, folder / "far.onnx");
}

TEST(Escapes, OfAnIndexAndItsShards) {
  const TempDir folder;
  std::filesystem::create_directory(folder / "m");
  write_safetensors(folder / "m/model.safetensors", {{"w", DType::kF32, {1}, bytes_of({1.0f})}});
  write_file(folder / "m/model.safetensors.index.json",
             R"({"weight_map":{"w":"model.safetensors","\u001b[2J":"model.safetensors\u0007evil"}})");
  write_file(folder / "m/\x1b[2J.py", "");
  expect_no_controls_from_any_verb(folder, folder / "m");
}

TEST(Escapes, NoControlCharacterOfAModelReachesTheTerminal) {
  const TempDir folder;
  const std::string& name = kEvil;
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
    expect_no_controls(arguments);
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
