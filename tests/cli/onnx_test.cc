// ONNX models on the command line: extracted, rewritten, refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/support.h"
#include "wconv/format.h"

namespace wconv::test {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const std::string kGolden = WCONV_TEST_DATA "/formats/onnx/golden/";

std::vector<std::byte> bytes_of_tensor(const std::string& path, std::string_view name) {
  const Model model = open_model(path, {});
  return read_all(model.tensors.at(static_cast<std::size_t>(find_tensor(model, name))));
}

TEST(Onnx, IsExtractedIntoEveryFormat) {
  const TempDir dir;
  for (const std::string extension : {".safetensors", ".pth", ".gguf"}) {
    const std::string out = dir / ("out" + extension);
    const RunResult result = wconv({"convert", kGolden + "lists.onnx", "-o", out});
    ASSERT_EQ(result.status, 0) << result.err;
    for (const char* name : {"many", "ints", "parts", "packed_dims"})
      EXPECT_EQ(bytes_of_tensor(out, name), bytes_of_tensor(kGolden + "lists.onnx", name)) << out << name;
    EXPECT_EQ(wconv({"verify", kGolden + "lists.onnx", out}).status, 0);
  }
}

TEST(Onnx, StringsAreSkippedAndSaid) {
  const TempDir dir;
  const RunResult result =
      wconv({"--json", "convert", kGolden + "places.onnx", "-o", dir / "out.safetensors", "--exclude", "odd"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json document = json::parse(result.out);
  const Names skipped = document["skipped"];
  EXPECT_EQ(skipped, (Names{"c_string", "c_strings", "words", "odd"}));
  EXPECT_NE(result.err.find("3 tensors of strings"), std::string::npos) << result.err;
}

TEST(Onnx, RewrittenWithAManifest) {
  const TempDir dir;
  const std::string out = dir / "out.onnx";
  RunResult result = wconv({"convert", kGolden + "lists.onnx", "-o", out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_file(out), read_file(kGolden + "lists.onnx"));
  EXPECT_EQ(wconv({"verify", out, "--manifest"}).status, 0);
  result = wconv({"--json", "convert", kGolden + "places.onnx", "-o", dir / "p.onnx", "--exclude", "odd"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["skipped"], json({"odd"})) << "strings stay in the file";
}

TEST(Onnx, WeightsOfAnotherFile) {
  const TempDir dir;
  const std::string out = dir / "out.onnx", weights = dir / "w.safetensors";
  write_safetensors(weights, {{"parts", DType::kF32, {3}, bytes_of({7.f, 8.f, 9.f})}});
  const RunResult result = wconv({"--json", "convert", kGolden + "lists.onnx", "--weights", weights, "-o", out});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["inputs"].size(), 2u);
  EXPECT_EQ(bytes_of_tensor(out, "parts"), bytes_of({7.f, 8.f, 9.f}));
  EXPECT_EQ(bytes_of_tensor(out, "one_by_one"), bytes_of_tensor(kGolden + "lists.onnx", "one_by_one"));
  const json manifest = json::parse(read_file(out + ".wconv.json"));
  EXPECT_NE(manifest.dump().find("\"weights\":\"w.safetensors\""), std::string::npos) << manifest.dump();
}

TEST(Onnx, ExternalDataIsAFileBesideIt) {
  const TempDir dir;
  const std::string out = dir / "out.onnx";
  const std::vector<std::string> command = {"convert", kGolden + "types.onnx", "-o", out, "--no-manifest"};
  ASSERT_EQ(wconv(command).status, 0);
  EXPECT_EQ(dir.names(), (Names{"out.onnx", "out.onnx.data"}));
  EXPECT_EQ(bytes_of_tensor(out, "F64.external"), bytes_of_tensor(kGolden + "types.onnx", "F64.external"));
  // An output without one does not leave it beside itself.
  RunResult result = wconv({"convert", kGolden + "lists.onnx", "-o", out, "--no-manifest"});
  EXPECT_EQ(result.status, 2) << result.err;
  result = wconv({"convert", kGolden + "lists.onnx", "-o", out, "--no-manifest", "--force"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(dir.names(), (Names{"out.onnx"}));
}

TEST(Onnx, LinksInThePlaceOfItsFilesAreReplacedAndNotFollowed) {
  const TempDir dir;
  write_file(dir / "precious", "keep me");
  for (const char* name : {"out.onnx", "out.onnx.data"}) std::filesystem::create_symlink("precious", dir / name);
  const RunResult result = wconv({"convert", kGolden + "types.onnx", "-o", dir / "out.onnx", "--force"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_file(dir / "precious"), "keep me");
  EXPECT_FALSE(std::filesystem::is_symlink(dir / "out.onnx.data"));
}

TEST(Onnx, WhatTheGraphDoesNotAllowIsRefusedWithTheReason) {
  const TempDir dir;
  const std::string out = dir / "out.onnx";
  for (const auto& [options, reason] : std::vector<std::pair<Names, std::string>>{
           {{"--set", "a=b"}, "metadata of ONNX files cannot be edited"},
           {{"--unset", "onnx.ir_version"}, "metadata of ONNX files cannot be edited"},
           {{"--rename", "many=few"}, "tensor 'many' cannot be renamed: the graph calls it so"},
           {{"--strip-prefix", "ma"}, "cannot be renamed: the graph calls it so"},
           {{"--exclude", "many"}, "the graph needs the tensor 'many', which is left out"},
           {{"--include", "ints"}, "the graph needs the tensor 'many', which is left out"},
           {{"--shard-size", "1MB"}, "ONNX files have no shards"},
           {{"--key", "a"}, "--key picks a part of a PyTorch checkpoint"}}) {
    Names command = {"convert", kGolden + "lists.onnx", "-o", out};
    command.insert(command.end(), options.begin(), options.end());
    const RunResult result = wconv(command);
    EXPECT_TRUE(result.status == 2 || result.status == 65) << options[0] << result.err;
    EXPECT_NE(result.err.find(reason), std::string::npos) << options[0] << " " << result.err;
  }
  EXPECT_EQ(dir.names(), Names());
}

TEST(Onnx, BareTensorsHaveNoGraph) {
  const TempDir dir;
  const std::string in = write_safetensors(dir / "in.safetensors", {{"w", DType::kF32, {1}, bytes_of({1.f})}});
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-o", dir / "out.onnx"}, {"--to", "onnx", "-o", dir / "out.bin"}}) {
    std::vector<std::string> command = {"convert", in};
    command.insert(command.end(), options.begin(), options.end());
    const RunResult result = wconv(command);
    EXPECT_EQ(result.status, 65) << result.err;
    EXPECT_NE(result.err.find("holds the graph that computes with the weights, and safetensors has none"),
              std::string::npos)
        << result.err;
  }
  EXPECT_EQ(dir.names(), (Names{"in.safetensors"}));
}

}  // namespace
}  // namespace wconv::test
