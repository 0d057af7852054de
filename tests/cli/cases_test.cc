// Runs `wconv convert` on every file of tests/cases and compares with expected.json: names, dtypes, shapes and digests
// of what is accepted; 65 or 66, one error and no output for what is refused; never a crash, a hang or much memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/hash.h"
#include "support/support.h"
#include "wconv/format.h"

namespace wconv::test {
namespace {

using nlohmann::json;

const std::string kCases = WCONV_TEST_DATA "/cases/";

struct Found {
  std::string dtype, sha256_16;
  std::vector<std::uint64_t> shape;
};

std::string digest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.hex().substr(0, 16);
}

// Read here and not by the reader under test.
std::map<std::string, Found> safetensors_of(const std::string& path) {
  const std::string file = read_file(path);
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  const std::string_view data = std::string_view(file).substr(8 + size);
  std::map<std::string, Found> found;
  const json header = json::parse(file.substr(8, size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    found[name] = {entry["dtype"], digest(std::as_bytes(std::span(data.substr(begin, end - begin)))), entry["shape"]};
  }
  return found;
}

std::map<std::string, Found> gguf_of(const std::string& path) {
  std::map<std::string, Found> found;
  for (const Tensor& tensor : open_model(path, {}).tensors) {
    found[tensor.info.name] = {std::string(name(tensor.info.dtype)), digest(read_all(tensor)), tensor.info.shape};
  }
  return found;
}

// ASan and TSan reserve terabytes of addresses, so their builds run without the limit.
std::vector<std::string> limits() {
  std::vector<std::string> command = {"timeout", "10"};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  command.insert(command.end(), {"prlimit", "--as=2147483648", "--core=0"});
#endif
  return command;
}

RunResult convert(const std::string& input, const std::string& output, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = limits();
  command.insert(command.end(), {WCONV_BINARY, "--json", "convert", input, "-o", output});
  command.insert(command.end(), more.begin(), more.end());
  return run(command);
}

struct Case {
  std::string file, expect, why;
  json tensors;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const json document = json::parse(read_file(kCases + "expected.json"));
  for (const json& entry : document) {
    all.push_back({entry["file"], entry["expect"], entry["why"], entry.value("tensors", json())});
  }
  return all;
}

class Cases : public testing::TestWithParam<Case> {};

TEST_P(Cases, AsExpected) {
  const Case& expected = GetParam();
  const bool gguf = expected.file.ends_with(".gguf");
  const TempDir folder;
  const std::string output = folder / (gguf ? "out.gguf" : "out.safetensors");
  const RunResult result = convert(kCases + expected.file, output);
  SCOPED_TRACE(expected.why + "\n" + result.err);
  ASSERT_TRUE(result.status == 0 || result.status == 65 || result.status == 66) << "exit status " << result.status;
  if (result.status != 0) {
    EXPECT_EQ(folder.names(), std::vector<std::string>()) << "left behind";
    EXPECT_EQ(json::parse(result.out)["error"].contains("message"), true);
    EXPECT_NE(result.err.find("wconv: error: "), std::string::npos);
  }
  ASSERT_TRUE(expected.expect != "accept" || result.status == 0) << "refused";
  ASSERT_TRUE(expected.expect != "refuse" || result.status != 0) << "accepted";
  if (expected.expect != "accept" || expected.tensors.is_null()) return;

  std::map<std::string, Found> found = gguf ? gguf_of(output) : safetensors_of(output);
  for (const json& want : expected.tensors) {
    const std::string name = want["name"];
    ASSERT_TRUE(found.contains(name)) << name;
    const Found& have = found[name];
    EXPECT_EQ(have.dtype, want.value("dtype", have.dtype)) << name;
    EXPECT_EQ(have.shape, want.value("shape", have.shape)) << name;
    EXPECT_EQ(have.sha256_16, want.value("sha256_16", have.sha256_16)) << name;
    found.erase(name);
  }
  for (const auto& [name, tensor] : found) ADD_FAILURE() << "a tensor that nobody asked for: " << name;
}

std::string test_name(const testing::TestParamInfo<Case>& parameter) {
  std::string name = parameter.param.file;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Cases, testing::ValuesIn(cases()), test_name);

// The bits of casts_f32 in another dtype, NaN payloads left out: references differ in them.
std::vector<std::string> cast_codes(const std::string& dtype, std::uint16_t infinity) {
  const TempDir folder;
  const std::string output = folder / "out.safetensors";
  const RunResult result =
      convert(kCases + "F/casts_f32.safetensors", output, {"--dtype", dtype, "--on-overflow", "inf"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("warning"), std::string::npos) << "finite values became infinite, and that was not said";
  const Model model = open_model(output, {});
  std::vector<std::string> codes;
  const std::vector<std::byte> bytes = read_all(model.tensors.at(0));
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    std::uint16_t code = 0;
    std::memcpy(&code, &bytes[i], 2);
    codes.push_back((code & 0x7fff) > infinity ? "nan" : fmt::format("{:04x}", code));
  }
  return codes;
}

std::vector<std::string> expected_codes(const std::string& column, std::uint16_t infinity) {
  std::vector<std::string> codes;
  const json document = json::parse(read_file(kCases + "numbers.json"));
  for (const std::string text : document["F01_casts"][column]) {
    const auto code = static_cast<std::uint16_t>(std::stoul(text, nullptr, 16));
    codes.push_back((code & 0x7fff) > infinity ? "nan" : text);
  }
  return codes;
}

TEST(CastCorners, Bf16RoundsToNearestEven) { EXPECT_EQ(cast_codes("bf16", 0x7f80), expected_codes("bf16_ml", 0x7f80)); }

TEST(CastCorners, F16RoundsToNearestEven) { EXPECT_EQ(cast_codes("f16", 0x7c00), expected_codes("f16", 0x7c00)); }

TEST(CastCorners, OverflowIsAnErrorByDefault) {
  const TempDir folder;
  const RunResult result = convert(kCases + "F/casts_f32.safetensors", folder / "out.safetensors", {"--dtype", "f16"});
  EXPECT_EQ(result.status, 65);
  EXPECT_EQ(folder.names(), std::vector<std::string>());
}

class AllCodes : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(AllCodes, SurviveEveryContainer) {
  const auto& [file, extension] = GetParam();
  const TempDir folder;
  const std::string there = folder / (std::string("there") + extension), back = folder / "back.safetensors";
  ASSERT_EQ(convert(kCases + "F/" + file, there).status, 0);
  ASSERT_EQ(convert(there, back).status, 0);
  const auto want = safetensors_of(kCases + "F/" + file), have = safetensors_of(back);
  ASSERT_EQ(have.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(have.contains(name)) << name;
    EXPECT_EQ(have.at(name).sha256_16, tensor.sha256_16) << name;
    EXPECT_EQ(have.at(name).dtype, tensor.dtype) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Containers, AllCodes,
                         testing::Combine(testing::Values("all_bf16.safetensors", "all_f16.safetensors"),
                                          testing::Values(".safetensors", ".gguf", ".pth")));

}  // namespace
}  // namespace wconv::test
