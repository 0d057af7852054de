#include "wconv/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

std::string sha256(std::string_view text) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(text)));
  return sha.hex();
}

// A folder with a card, converted with a rename and a cast; returns the manifest's text.
std::string convert(const std::string& in, const std::string& out, std::uint64_t shard_size = 0) {
  fs::create_directory(in);
  test::write_safetensors(in + "/model.safetensors",
                          {{"module.a", DType::kF32, {2}, test::bytes_of({1.0f, 1e9f})},
                           {"module.b", DType::kI8, {3}, test::bytes_of<signed char>({1, 2, 3})}});
  test::write_file(in + "/README.md", "---\ntitle: x\nlicense: apache-2.0\nbase_model: 'org/base'\n---\n# card\n");
  CastRules casts;
  casts.dtype = DType::kF16;
  casts.on_overflow = OnOverflow::kInfinity;
  const Model model = cast_tensors(rename_tensors(open_model(in, {}), {{"module."}, {}}), casts);
  const std::string name = fs::path(out).filename().string();
  WriteOptions options;
  options.file_name = name;
  options.shard_size = shard_size;
  const Layout layout = find_writer("safetensors")->plan(model, options);
  Output output(out, false, false);
  const EngineResult result = execute(model, layout, output, {});
  const ManifestInfo info{"1.2.3", "convert", {{"dtype", "\"F16\""}}, "safetensors"};
  const std::string text = manifest_text(info, model, result);
  output.add(manifest_name(name, false), text);
  output.commit();
  return text;
}

TEST(Manifest, HoldsWhatIsNeededToRepeatAndToCheck) {
  const test::TempDir dir;
  const std::string text = convert(dir / "in", dir / "out.safetensors");
  EXPECT_EQ(text, test::read_file(dir / "out.safetensors.wconv.json"));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("wconv"), "1.2.3");
  EXPECT_EQ(json.at("command"), "convert");
  EXPECT_EQ(json.at("format"), "safetensors");
  EXPECT_EQ(json.at("options").at("dtype"), "F16");
  EXPECT_EQ(json.at("license"), "apache-2.0");
  EXPECT_EQ(json.at("base_model"), "org/base");
  const std::string in = test::read_file(dir / "in/model.safetensors"), out = test::read_file(dir / "out.safetensors");
  const auto& input = json.at("inputs").at(0);
  EXPECT_EQ(input.at("path"), "model.safetensors");
  EXPECT_EQ(input.at("bytes"), in.size());
  EXPECT_EQ(input.at("sha256"), sha256(in));
  ASSERT_EQ(json.at("outputs").size(), 1u);
  EXPECT_EQ(json.at("outputs").at(0).at("path"), "out.safetensors");
  EXPECT_EQ(json.at("outputs").at(0).at("sha256"), sha256(out));
  const auto& a = json.at("tensors").at(0);
  EXPECT_EQ(a.at("name"), "a");
  EXPECT_EQ(a.at("dtype"), "F16");
  EXPECT_EQ(a.at("shape"), nlohmann::json({2}));
  EXPECT_EQ(a.at("sha256"), sha256(std::string_view("\x00\x3c\x00\x7c", 4)));  // 1, infinity
  EXPECT_EQ(a.at("source"), nlohmann::json({{"name", "module.a"}, {"dtype", "F32"}, {"file", "model.safetensors"}}));
  ASSERT_EQ(a.at("transforms").size(), 2u);
  EXPECT_EQ(a.at("transforms").at(0).at("op"), "rename");
  EXPECT_EQ(a.at("transforms").at(1).at("op"), "cast");
  EXPECT_EQ(a.at("overflow"), nlohmann::json({{"elements", 1}, {"first", 1}}));
  EXPECT_EQ(json.at("tensors").at(1).at("sha256"), sha256("\x01\x02\x03"));
}

TEST(Manifest, IsTheSameWhereverTheModelLies) {
  const test::TempDir one, two;
  fs::create_directories(two / "deeper");
  const std::string text = convert(one / "model", one / "out.safetensors");
  EXPECT_EQ(text, convert(two / "deeper/model", two / "deeper/out.safetensors"));
  EXPECT_EQ(text.find(one.path().string()), std::string::npos);
}

TEST(Manifest, NamesTiedTensors) {
  Model model = test::make_model({{"a", DType::kU8, {1}, test::bytes_of<unsigned char>({1})},
                                  {"b", DType::kU8, {1}, {}},
                                  {"c", DType::kU8, {1}, test::bytes_of<unsigned char>({1})}});
  model.tensors[1].data = model.tensors[0].data;
  EngineResult result;
  result.tensors.resize(3);
  EXPECT_EQ(nlohmann::json::parse(manifest_text({}, model, result)).at("tied"),
            nlohmann::json::parse(R"([["a", "b"]])"));
}

TEST(CheckManifest, FindsOneChangedByte) {
  const test::TempDir dir;
  convert(dir / "in", dir / "out.safetensors");
  EXPECT_TRUE(has_manifest(dir / "out.safetensors"));
  EXPECT_TRUE(check_manifest(dir / "out.safetensors", 2).empty());
  std::string bytes = test::read_file(dir / "out.safetensors");
  bytes.back() ^= 1;
  test::write_file(dir / "out.safetensors", bytes);
  auto problems = check_manifest(dir / "out.safetensors", 2);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].file, "out.safetensors");
  EXPECT_EQ(problems[0].message.find("has SHA-256 "), 0u) << problems[0].message;
  test::write_file(dir / "out.safetensors", bytes + "x");
  problems = check_manifest(dir / "out.safetensors", 2);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].message.find(fmt::format("has {} bytes", bytes.size() + 1)), std::string::npos)
      << problems[0].message;
  fs::remove(dir / "out.safetensors");
  problems = check_manifest(dir / "out.safetensors", 2);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "is missing");
}

TEST(CheckManifest, FindsTheManifestOfShardsByAnyOfThem) {
  const test::TempDir dir;
  convert(dir / "in", dir / "m.safetensors", 4);
  for (const std::string name : {"m.safetensors", "m.safetensors.index.json", "m-00002-of-00002.safetensors"}) {
    EXPECT_TRUE(has_manifest(dir / name)) << name;
    EXPECT_TRUE(check_manifest(dir / name, 1).empty()) << name;
  }
  fs::resize_file(dir / "m-00001-of-00002.safetensors", 3);
  const auto problems = check_manifest(dir / "m.safetensors.index.json", 1);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].file, "m-00001-of-00002.safetensors");
}

void expect_refused(const std::string& manifest, ErrorCode code, std::string_view words) {
  const test::TempDir dir;
  if (!manifest.empty()) test::write_file(dir / "m.gguf.wconv.json", manifest);
  try {
    check_manifest(dir / "m.gguf", 1);
    ADD_FAILURE() << manifest;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
  }
}

TEST(CheckManifest, OfOneFileWithTheNameOfAShard) {
  const test::TempDir dir;
  test::write_safetensors(dir / "in.safetensors", {{"a", DType::kU8, {1}, test::bytes_of<unsigned char>({1})}});
  const std::string path = dir / "out-00001-of-00001.safetensors";
  ASSERT_EQ(test::wconv({"convert", dir / "in.safetensors", "-o", path}).status, 0);
  EXPECT_TRUE(has_manifest(path));
  EXPECT_TRUE(check_manifest(path, 1).empty());
}

TEST(CheckManifest, RefusesWhatIsNoManifest) {
  expect_refused("", ErrorCode::kMissing, "m.gguf.wconv.json: no such file");
  expect_refused("not JSON", ErrorCode::kCorrupt, "is not JSON");
  expect_refused(std::string(1'000'000, '['), ErrorCode::kCorrupt, "nests too deeply");
  expect_refused(R"({"outputs": [{"path": "m.gguf"}]})", ErrorCode::kCorrupt, "is no manifest of wconv");
  expect_refused(R"({"outputs": [{"path": "m.gguf", "bytes": "x", "sha256": ""}]})", ErrorCode::kCorrupt,
                 "is no manifest");
  for (const std::string_view path : {"../m.gguf", "/etc/passwd", "a/../../b"}) {
    expect_refused(fmt::format(R"({{"outputs": [{{"path": "{}", "bytes": 1, "sha256": ""}}]}})", path),
                   ErrorCode::kCorrupt, "nothing was opened");
  }
}

}  // namespace
}  // namespace wconv
