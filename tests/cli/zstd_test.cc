// .zst in and out on the command line: names, manifests, shards, folders, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using nlohmann::json;

std::vector<std::byte> weights(std::size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 32);
  return bytes;
}

class ZstdFiles : public testing::Test {
 protected:
  RunResult convert(const std::string& input, const std::string& output, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"convert", input, "-o", folder_ / output});
    return wconv(options);
  }
  void expect_equal(const std::string& path) {
    const RunResult result = wconv({"verify", input_, path});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }
  void expect_usage(const RunResult& result, const std::string& words) {
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  }

  TempDir input_folder_, folder_;
  std::string input_ =
      write_safetensors(input_folder_ / "in.safetensors", {{"a", DType::kI8, {2'500'000}, weights(2'500'000)},
                                                           {"b", DType::kF32, {1}, bytes_of({2.0f})},
                                                           {"c", DType::kF32, {2}, bytes_of({3.0f, 4.0f})}});
};

TEST_F(ZstdFiles, AnOutputCalledZstIsCompressed) {
  for (const std::string name : {"m.safetensors.zst", "m.pth.zst", "m.gguf.zst"}) {
    const RunResult result = convert(input_, name);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(read_file(folder_ / name).substr(0, 4), "\x28\xb5\x2f\xfd") << name;
    EXPECT_LT(fs::file_size(folder_ / name), fs::file_size(input_));
    expect_equal(folder_ / name);
    EXPECT_EQ(wconv({"verify", folder_ / name, "--manifest"}).status, 0);
    const json manifest = json::parse(read_file(folder_ / (name + ".wconv.json")));
    EXPECT_EQ(manifest["options"]["compress"], "zstd:3");
    EXPECT_EQ(manifest["outputs"][0]["path"], name);
    EXPECT_EQ(manifest["outputs"][0]["bytes"], fs::file_size(folder_ / name));
    // And back, whatever it is called.
    fs::copy_file(folder_ / name, folder_ / "renamed");
    ASSERT_EQ(convert(folder_ / "renamed", "back.safetensors").status, 0);
    const json back = json::parse(read_file(folder_ / "back.safetensors.wconv.json"));
    EXPECT_EQ(back["inputs"][0]["sha256"], manifest["outputs"][0]["sha256"]);
    for (const json& tensor : manifest["tensors"]) {
      const auto same = [&](const json& other) { return other["name"] == tensor["name"]; };
      EXPECT_EQ((*std::ranges::find_if(back["tensors"], same))["sha256"], tensor["sha256"]);
    }
    for (const std::string made : {"renamed", "back.safetensors", "back.safetensors.wconv.json"})
      fs::remove(folder_ / made);
  }
}

TEST_F(ZstdFiles, AnOutputOfAnotherNameIsCompressedWhenAskedFor) {
  const RunResult result = convert(input_, "m.safetensors", {"--compress", "zstd:9"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("m.safetensors.zst"), std::string::npos) << "the usual name: " << result.err;
  EXPECT_EQ(folder_.names(), Names({"m.safetensors", "m.safetensors.wconv.json"}));
  EXPECT_EQ(read_file(folder_ / "m.safetensors").substr(0, 4), "\x28\xb5\x2f\xfd");
  EXPECT_EQ(wconv({"verify", input_, folder_ / "m.safetensors"}).status, 0);
}

TEST_F(ZstdFiles, LevelsAreFrom1To22) {
  ASSERT_EQ(convert(input_, "fast.pth.zst", {"--compress", "zstd:1"}).status, 0);
  ASSERT_EQ(convert(input_, "small.pth.zst", {"--compress", "zstd:22"}).status, 0);
  EXPECT_FALSE(read_file(folder_ / "small.pth.zst") == read_file(folder_ / "fast.pth.zst"));
  EXPECT_EQ(json::parse(read_file(folder_ / "small.pth.zst.wconv.json"))["options"]["compress"], "zstd:22");
  for (const std::string value : {"zstd:0", "zstd:23", "zstd:", "zstd:3x", "gzip", "zstd3", "zstd:-1"})
    expect_usage(convert(input_, "m.pth", {"--compress", value}), "'" + value + "' is neither zstd nor zstd:LEVEL");
  expect_usage(convert(input_, "m.zst"), "names no format");
  expect_usage(convert(input_, "m.tar.zst"), "'.tar' names no format");
}

TEST_F(ZstdFiles, TheToolAcceptsThem) {
  if (run({"zstd", "--version"}).status != 0) GTEST_SKIP() << "zstd is not installed";
  ASSERT_EQ(convert(input_, "m.safetensors.zst").status, 0);
  ASSERT_EQ(convert(input_, "plain.safetensors").status, 0);
  EXPECT_EQ(run({"zstd", "-q", "-t", folder_ / "m.safetensors.zst"}).status, 0);
  ASSERT_EQ(run({"zstd", "-q", "-d", folder_ / "m.safetensors.zst"}).status, 0);
  EXPECT_TRUE(read_file(folder_ / "m.safetensors") == read_file(folder_ / "plain.safetensors"));
}

TEST_F(ZstdFiles, ADryRunStatesTheMostTheyTake) {
  const RunResult text = convert(input_, "m.safetensors.zst", {"--dry-run"});
  EXPECT_NE(text.out.find("m.safetensors.zst  at most "), std::string::npos) << text.out;
  const RunResult planned = convert(input_, "m.safetensors.zst", {"--dry-run", "--json"});
  const json output = json::parse(planned.out)["outputs"][0];
  EXPECT_EQ(output["at_most"], true);
  ASSERT_EQ(convert(input_, "m.safetensors.zst").status, 0);
  EXPECT_GE(output["bytes"], fs::file_size(folder_ / "m.safetensors.zst"));
}

TEST_F(ZstdFiles, ShardsAreCompressedAndTheIndexKeepsTheirPlainNames) {
  const RunResult result = convert(input_, "m.safetensors.zst", {"--shard-size", "1MB"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Names names = {"m-00001-of-00002.safetensors.zst", "m-00002-of-00002.safetensors.zst",
                       "m.safetensors.index.json", "m.safetensors.wconv.json"};
  EXPECT_EQ(folder_.names(), names);
  EXPECT_EQ(json::parse(read_file(folder_ / names[2]))["weight_map"]["a"], "m-00001-of-00002.safetensors");
  expect_equal(folder_ / names[2]);
  for (const std::string& name : {names[0], names[2]})
    EXPECT_EQ(wconv({"verify", folder_ / name, "--manifest"}).status, 0) << name;
  // Plain shards beside them would be read instead, and compressed ones would be left.
  const RunResult plain = convert(input_, "m.safetensors", {"--shard-size", "1MB"});
  expect_usage(plain, "'" + names[0] + "'");
  ASSERT_EQ(convert(input_, "m.safetensors", {"--shard-size", "1MB", "--force"}).status, 0);
  EXPECT_EQ(folder_.names(),
            Names({"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", names[2], names[3]}));
  expect_usage(convert(input_, "m.safetensors.zst", {"--shard-size", "1MB"}), "'m-00001-of-00002.safetensors'");
}

TEST_F(ZstdFiles, PartsOfGgufAreCompressed) {
  ASSERT_EQ(convert(input_, "m.gguf.zst", {"--shard-size", "1MB"}).status, 0);
  const Names names = folder_.names();
  ASSERT_TRUE(std::ranges::find(names, "m-00001-of-00002.gguf.zst") != names.end());
  expect_equal(folder_ / "m-00001-of-00002.gguf.zst");
  fs::remove(folder_ / "m-00002-of-00002.gguf.zst");
  const RunResult result = wconv({"inspect", folder_ / "m-00001-of-00002.gguf.zst"});
  EXPECT_EQ(result.status, 66) << result.err;
}

// A model whose numbers lie in w.bin.
std::string external_onnx(const TempDir& folder) {
  const std::string cases = WCONV_TEST_DATA "/cases/D01/";
  write_file(folder / "w.bin", read_file(cases + "w.bin"));
  write_file(folder / "in.onnx", read_file(cases + "ok.onnx"));
  return folder / "in.onnx";
}

TEST_F(ZstdFiles, ExternalDataIsCompressedBesideItsModel) {
  const TempDir plain;
  const std::string model = external_onnx(plain);
  ASSERT_EQ(convert(model, "m.onnx.zst").status, 0);
  EXPECT_EQ(folder_.names(), Names({"m.onnx.data.zst", "m.onnx.zst", "m.onnx.zst.wconv.json"}));
  EXPECT_EQ(wconv({"verify", model, folder_ / "m.onnx.zst"}).status, 0);
  EXPECT_EQ(wconv({"verify", folder_ / "m.onnx.zst", "--manifest"}).status, 0);
  // Both models would refer to one file of data.
  expect_usage(convert(model, "m.onnx"), "'m.onnx.data.zst'");
  ASSERT_EQ(convert(model, "m.onnx", {"--compress", "zstd", "--force"}).status, 0);
  EXPECT_FALSE(read_file(folder_ / "m.onnx").starts_with("\x28\xb5\x2f\xfd"));  // its graph is plain
  EXPECT_EQ(wconv({"verify", model, folder_ / "m.onnx"}).status, 0);
}

TEST_F(ZstdFiles, ExternalDataIsUnpackedByItsNameAlone) {
  const std::string model = external_onnx(folder_);
  const std::string numbers = read_file(folder_ / "w.bin");
  write_file(folder_ / "w.bin", "\x28\xb5\x2f\xfd" + numbers.substr(4));
  EXPECT_EQ(wconv({"inspect", model, "--hash"}).status, 0);
  if (run({"zstd", "--version"}).status != 0) GTEST_SKIP() << "zstd is not installed";
  ASSERT_EQ(run({"zstd", "-q", "--rm", folder_ / "w.bin"}).status, 0);
  ASSERT_EQ(run({"zstd", "-q", model}).status, 0);
  EXPECT_EQ(wconv({"verify", model, model + ".zst"}).status, 0);
}

TEST_F(ZstdFiles, WeightsInAFolderAreCompressedAndNothingElse) {
  const TempDir model;
  fs::copy_file(input_, model / "model.safetensors");
  write_file(model / "config.json", R"({"model_type": "x"})");
  ASSERT_EQ(convert(model.path(), "hf", {"--compress", "zstd"}).status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "hf/model.safetensors.zst"));
  EXPECT_EQ(read_file(folder_ / "hf/config.json"), read_file(model / "config.json"));
  expect_equal(folder_ / "hf");
  EXPECT_EQ(wconv({"verify", folder_ / "hf", "--manifest"}).status, 0);
  EXPECT_EQ(convert(model.path(), "hf", {"--compress", "zstd:1", "--force"}).status, 0) << "it may be replaced";
}

TEST_F(ZstdFiles, WithoutAManifestOrWithAnInputBesideItNothingElseIsTouched) {
  fs::copy_file(input_, folder_ / "m.safetensors");
  ASSERT_EQ(convert(folder_ / "m.safetensors", "m.safetensors.zst", {"--no-manifest"}).status, 0);
  EXPECT_EQ(folder_.names(), Names({"m.safetensors", "m.safetensors.zst"}));
  expect_usage(convert(input_, "m.safetensors.zst"), "exists");
}

TEST_F(ZstdFiles, DamageIsAnErrorOfTheInput) {
  ASSERT_EQ(convert(input_, "m.safetensors.zst", {"--no-manifest"}).status, 0);
  std::string bytes = read_file(folder_ / "m.safetensors.zst");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(folder_ / "damaged", bytes);
  write_file(folder_ / "short", bytes.substr(0, bytes.size() / 2));
  for (const std::string name : {"damaged", "short"}) {
    for (const RunResult& result : {convert(folder_ / name, "out.pth"), wconv({"verify", folder_ / name})}) {
      EXPECT_EQ(result.status, 65) << name << result.err;
      EXPECT_NE(result.err.find(folder_ / name), std::string::npos) << result.err;
      EXPECT_NE(result.err.find("(at byte "), std::string::npos) << result.err;
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "out.pth"));
}

TEST_F(ZstdFiles, InspectReadsTheFrontAloneAndStatesTheFileOnDisk) {
  ASSERT_EQ(convert(input_, "m.safetensors.zst").status, 0);
  const RunResult result = wconv({"--json", "inspect", "--hash", folder_ / "m.safetensors.zst"});
  const json file = json::parse(result.out)["files"][0];
  EXPECT_EQ(file["bytes"], fs::file_size(folder_ / "m.safetensors.zst"));
  EXPECT_EQ(file["sha256"], json::parse(read_file(folder_ / "m.safetensors.zst.wconv.json"))["outputs"][0]["sha256"]);
}

TEST_F(ZstdFiles, UnpackingNeedsNoMoreThanTheMemoryAllowed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need memory of their own";
#endif
  constexpr std::uint64_t kSize = 300 << 20, kLimit = 112 << 20;
  write_safetensors(input_folder_ / "large.safetensors", {{"w", DType::kU8, {kSize}, std::vector<std::byte>(kSize)}});
  ASSERT_EQ(convert(input_folder_ / "large.safetensors", "frames.zst", {"--to", "safetensors"}).status, 0);
  if (run({"zstd", "-q", input_folder_ / "large.safetensors", "-o", folder_ / "stream.zst"}).status != 0)
    fs::copy_file(folder_ / "frames.zst", folder_ / "stream.zst");
  for (const std::string name : {"frames.zst", "stream.zst"}) {
    // A shell in between: a child counts the memory that its parent had before exec as its own.
    const auto result =
        run({"sh", "-c", "\"$@\"; exit $?", "sh", WCONV_BINARY, "--json", "--threads", "7", "--max-memory", "112MiB",
             "convert", folder_ / name, "-o", folder_ / (name + ".pth.zst"), "--no-manifest"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_LE(json::parse(result.out).at("peak_memory_bytes").get<std::uint64_t>(), kLimit) << name;
  }
  const auto refused = convert(folder_ / "frames.zst", "out.pth", {"--max-memory", "40MiB"});
  expect_usage(refused, "--max-memory 41943040 is below");
}

}  // namespace
}  // namespace wconv::test
