// Files that the reference package wrote, and what it reads from them (golden/make.py).
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "proto.h"

namespace wconv::onnx::test {
namespace {

using nlohmann::json;

const std::string kGolden = WCONV_TEST_DATA "/formats/onnx/golden/";

Model golden(const std::string& name) { return open_model(kGolden + name, {}); }

std::string digest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.hex();
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, TensorsAreThoseOfTheReference) {
  const Model model = golden(GetParam());
  const json expected = json::parse(wconv::test::read_file(kGolden + "expected.json"))[GetParam()];
  ASSERT_EQ(model.tensors.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor& tensor = model.tensors[i];
    EXPECT_EQ(tensor.info.name, expected[i][0]) << i;
    EXPECT_EQ(name(tensor.info.dtype), expected[i][1]) << tensor.info.name;
    EXPECT_EQ(tensor.info.shape, expected[i][2].get<std::vector<std::uint64_t>>()) << tensor.info.name;
    EXPECT_EQ(digest(wconv::test::read_all(tensor)), expected[i][3]) << tensor.info.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::Values("types.onnx", "lists.onnx", "places.onnx"),
                         [](const auto& parameter) {
                           const std::string file = parameter.param;
                           return file.substr(0, file.find('.'));
                         });

// Any part of a list that is decoded when it is read: across windows and checkpoints.
TEST(GoldenLists, PartsAreThoseOfTheWhole) {
  const Model model = golden("lists.onnx");
  const Tensor& many = model.tensors.at(static_cast<std::size_t>(find_tensor(model, "many")));
  const std::vector<std::byte> whole = wconv::test::read_all(many);
  for (const std::size_t begin : {0u, 1u, 16383u, 16384u, 16385u, 16999u}) {
    for (const std::size_t count : {1u, 2u, 600u, 17000u}) {
      std::vector<std::byte> part(std::min<std::size_t>(count * 8, whole.size() - begin * 8));
      many.data->read(begin * 8, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin * 8)))
          << begin << ", " << count;
    }
  }
}

TEST(GoldenTypes, FixedWidthDataLiesInTheFilesAsItIs) {
  const Model model = golden("types.onnx");
  ASSERT_EQ(model.files.size(), 2u);
  EXPECT_TRUE(model.files[1].path.ends_with("types.bin"));
  for (const Tensor& tensor : model.tensors) {
    const std::string& name = tensor.info.name;
    const bool in_place = name.ends_with(".raw") || name.ends_with(".external") || name == "F32.typed" ||
                          name == "F64.typed" || name == "C64.typed" || name == "C128.typed";
    EXPECT_EQ(tensor.data->file_range().has_value(), in_place || name == "scalar" || name == "empty") << name;
    EXPECT_EQ(tensor.source_file->path().ends_with("types.bin"), name.ends_with(".external")) << name;
  }
}

void expect_metadata(const Model& model, std::string_view key, std::string_view value) {
  const MetaValue* found = model.metadata.find(key);
  ASSERT_NE(found, nullptr) << key;
  EXPECT_EQ(metadata_json(*found), value) << key;
}

TEST(GoldenPlaces, Metadata) {
  const Model model = golden("places.onnx");
  expect_metadata(model, "onnx.ir_version", "10");
  expect_metadata(model, "onnx.opset.ai.onnx", "21");
  expect_metadata(model, "onnx.opset.org.example", "1");
  expect_metadata(model, "onnx.producer_name", R"("golden")");
  expect_metadata(model, "onnx.producer_version", R"("1.2")");
  expect_metadata(model, "onnx.domain", R"("org.example")");
  expect_metadata(model, "onnx.model_version", "7");
  expect_metadata(model, "onnx.doc_string", R"("a model")");
  expect_metadata(model, "onnx.graph.name", R"("golden")");
  expect_metadata(model, "onnx.graph.doc_string", R"("a graph")");
  expect_metadata(model, "onnx.graph.inputs", R"(["x: F32[batch,3]"])");  // w is an input too, with a value
  expect_metadata(model, "onnx.graph.outputs", R"x(["y: F32[...]","z: SEQUENCE(I64[?,4])","words_out: STRING[]"])x");
  expect_metadata(model, "onnx.sparse.s", "[3,4]");
  expect_metadata(model, "onnx.sparse.c_sparse", "[2,2]");
  expect_metadata(model, "author", R"("someone")");
}

TEST(GoldenPlaces, WhatIsNoWeightIsSaid) {
  const Model model = golden("places.onnx");
  EXPECT_TRUE(has_finding(model, "string-tensor", "3 tensors of strings"));
  EXPECT_EQ(model.left_out, (std::vector<std::string>{"c_string", "c_strings", "words"}));
  ASSERT_EQ(model.refused.size(), 1u);
  EXPECT_EQ(model.refused[0].name, "odd");
  EXPECT_TRUE(has_finding(model, "custom-operator", "'org.example:Special'"));  // and not the function's local:Half
  EXPECT_FALSE(has_finding(model, "custom-operator", "local"));
  EXPECT_TRUE(has_finding(model, "metadata-twice", "'onnx.domain'"));
  EXPECT_TRUE(has_finding(model, "sparse-tensor", "'c_sparse', 's'"));
}

// Single numbers, attributes, lists and parts of sparse tensors are left alone by a cast of all weights.
TEST(GoldenPlaces, Parameters) {
  std::vector<std::string> weights;
  for (const Tensor& tensor : golden("places.onnx").tensors)
    if (!tensor.is_parameter) weights.push_back(tensor.info.name);
  EXPECT_EQ(weights, (std::vector<std::string>{"c_tensor", "shared", "choose/then_branch/shared", "w"}));
}

}  // namespace
}  // namespace wconv::onnx::test
