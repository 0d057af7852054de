// Options that cannot be meant are refused with 2, whatever part of wconv finds out; what the input itself holds,
// with 65.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/support.h"

namespace wconv::test {
namespace {

class Usage : public testing::Test {
 protected:
  TempDir folder_;
  std::string model_ = write_safetensors(folder_ / "m.safetensors", {{"w", DType::kF32, {2}, bytes_of({1.0f, 2.0f})}});

  void expect_error(const std::vector<std::string>& options, const std::string& output, int status,
                    const std::string& text) {
    std::vector<std::string> arguments = {"convert", model_, "-o", folder_ / output};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const RunResult result = wconv(arguments);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(folder_.names().size(), 1u);
  }
};

TEST_F(Usage, WhatAnOptionMakesImpossible) {
  expect_error({"--rename", "^w$=__metadata__"}, "o.safetensors", 2, "'__metadata__', a reserved name");
  expect_error({"--rename", "^w$=" + std::string(64, 'n')}, "o.gguf", 2, "has 64 bytes");
  expect_error({"--rename", "^w$=\xff"}, "o.pth", 2, "not UTF-8");
  expect_error({"--shard-size", "1KB"}, "o.pth", 2, "--shard-size");
  expect_error({"--shard-size", "1KB"}, "o.bin", 2, "--shard-size");
  expect_error({"--dtype", "f8_e4m3"}, "o.gguf", 2, "F8_E4M3, which GGUF has no type for");
  expect_error({"--set", "general.alignment=7"}, "o.gguf", 2, "must be a power of two");
  expect_error({"--set", "general.alignment:u64=64"}, "o.gguf", 2, "must be u32");
  expect_error({}, "o.pkl", 2, "a bare pickle is not written");
}

TEST_F(Usage, AnEmptyValueIsNotTheSameAsNoOption) {
  for (const char* option : {"--to", "--dtype", "--key", "--shard-size"}) {
    expect_error({option, ""}, "o.gguf", 2, std::string(option) + ": the value is empty");
    expect_error({std::string(option) + "="}, "o.gguf", 2, option);
  }
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"inspect", model_, "--key", ""},
                                                    {"verify", model_, "--key", ""},
                                                    {"verify", model_, model_, "--candidate-key", ""},
                                                    {"verify", model_, ""}}) {
    const RunResult result = wconv(arguments);
    EXPECT_EQ(result.status, 2) << arguments[0];
    EXPECT_NE(result.err.find("the value is empty"), std::string::npos) << result.err;
  }
}

TEST_F(Usage, NothingLeft) {
  expect_error({"--exclude", "*"}, "o.safetensors", 2, "--include and --exclude leave none of the 1 tensor");
  expect_error({"--include", "w", "--exclude", "w"}, "o.gguf", 2, "leave none of the 1 tensor");
}

TEST_F(Usage, WhatTheInputHoldsIsNot) {
  write_safetensors(model_, {{"w", DType::kU16, {1}, bytes_of<std::uint16_t>({1})}});
  expect_error({}, "o.gguf", 65, "U16");
  expect_error({"--rename", "w=v"}, "o.gguf", 65, "U16");
}

TEST_F(Usage, AModelWithoutTensorsIsCopiedInItsOwnFormat) {
  const std::string empty_metadata = std::string("\x18\0\0\0\0\0\0\0", 8) + "{\"__metadata__\":{}}     ";
  for (const std::string& text : {std::string("\x08\0\0\0\0\0\0\0", 8) + "{}      ", empty_metadata}) {
    write_file(model_, text);
    const std::string copy = folder_ / "copy.safetensors";
    const RunResult result = wconv({"convert", model_, "-o", copy, "--no-manifest", "--force"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(read_file(copy), text);
    EXPECT_EQ(wconv({"verify", model_, copy}).status, 0);
    std::filesystem::remove(copy);
    expect_error({}, "o.gguf", 65, "holds no tensors; only safetensors is written from it, not gguf");
  }
}

}  // namespace
}  // namespace wconv::test
