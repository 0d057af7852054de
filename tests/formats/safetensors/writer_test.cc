#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "formats/safetensors/safetensors.h"
#include "support/support.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

std::string golden(std::string_view name) {
  return fmt::format("{}/formats/safetensors/golden/{}.safetensors", WCONV_TEST_DATA, name);
}

void write(const Model& model, const std::string& path, std::uint64_t shard_size = 0) {
  WriteOptions options;
  options.file_name = std::filesystem::path(path).filename().string();
  options.shard_size = shard_size;
  ASSERT_EQ(safetensors_writer().check(model, options), std::vector<std::string>{});
  Output output(path, false, false);
  execute(model, safetensors_writer().plan(model, options), output, {});
  output.commit();
}

class Golden : public testing::TestWithParam<std::string> {};

// The tensors in any order give the bytes that the reference package writes (golden/make.py).
TEST_P(Golden, IsWrittenByteForByteAsTheReferenceDoes) {
  const test::TempDir dir;
  Model model = open_model(golden(GetParam()), {});
  std::mt19937 random(3);
  for (int order = 0; order < 3; ++order) {
    const std::string path = dir / std::to_string(order);
    write(model, path);
    EXPECT_EQ(test::read_file(path), test::read_file(golden(GetParam()))) << order;
    std::shuffle(model.tensors.begin(), model.tensors.end(), random);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Golden,
                         testing::Values("every_dtype", "names", "shapes", "no_tensors", "only_metadata",
                                         "empty_metadata"),
                         [](const auto& param) { return param.param; });

TEST(GoldenValues, AreReadAsTheyWereMade) {
  const Model every = open_model(golden("every_dtype"), {});
  ASSERT_EQ(every.tensors.size(), 20u);
  for (const Tensor& tensor : every.tensors) {
    const auto number = std::stoul(tensor.info.name.substr(1, 2)) * 3 % 20;  // 7 · 3 = 1 mod 20: the index in make.py
    const auto bytes = test::read_all(tensor);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), number + i) << tensor.info.name;
    EXPECT_EQ(tensor.info.shape, (std::vector<std::uint64_t>{2, 4})) << tensor.info.name;
  }
  const Model shapes = open_model(golden("shapes"), {});
  const Tensor& scalar = shapes.tensors[static_cast<std::size_t>(find_tensor(shapes, "scalar"))];
  EXPECT_TRUE(scalar.info.shape.empty());
  EXPECT_EQ(test::read_all(scalar), test::bytes_of({1.0f}));
  EXPECT_EQ(*shapes.metadata.find("format")->as_string(), "pt");
  EXPECT_EQ(*open_model(golden("only_metadata"), {}).metadata.find("k\u00e9y")->as_string(), "v\"al\nue");
}

TEST(Writer, SixBitFloatsStandBetweenFourBitOnesAndBytes) {  // the reference package has no way to make them
  const test::TempDir dir;
  write(test::make_model({{"a", DType::kBool, {1}, std::vector<std::byte>(1)},
                          {"b", DType::kF4, {2}, std::vector<std::byte>(1)},
                          {"c", DType::kF6E2M3, {4}, std::vector<std::byte>(3)},
                          {"d", DType::kF6E3M2, {4}, std::vector<std::byte>(3)},
                          {"e", DType::kU8, {1}, std::vector<std::byte>(1)}}),
        dir / "out");
  std::string names;
  for (const Tensor& tensor : open_model(dir / "out", {}).tensors) names += tensor.info.name;
  EXPECT_EQ(names, "edcba");
}

TEST(Writer, TiedTensorsAreWrittenUnderEachName) {
  const test::TempDir dir;
  Model model = test::make_model(
      {{"embed", DType::kU8, {2}, test::bytes_of<unsigned char>({1, 2})}, {"head", DType::kU8, {2}, {}}});
  model.tensors[1].data = model.tensors[0].data;
  write(model, dir / "out");
  const Model back = open_model(dir / "out", {});
  ASSERT_EQ(back.tensors.size(), 2u);
  EXPECT_EQ(test::read_all(back.tensors[0]), test::read_all(back.tensors[1]));
}

TEST(Writer, TypedMetadataComesBackWithItsTypes) {
  const test::TempDir dir;
  Model model = test::make_model({{"a", DType::kU8, {1}, std::vector<std::byte>(1)}});
  model.metadata.append("name", MetaValue::string("x"));
  model.metadata.append("layers", MetaValue::u32(7));
  write(model, dir / "out");
  const Model back = open_model(dir / "out", {});
  EXPECT_EQ(*back.metadata.find("name")->as_string(), "x");
  ASSERT_TRUE(back.metadata.find("layers"));
  EXPECT_EQ(back.metadata.find("layers")->type, MetaType::kU32);
}

TEST(Writer, NamesEveryProblemAtOnce) {
  Model model = test::make_model({{"q", DType::kQ4_0, {32}, std::vector<std::byte>(18)},
                                  {"\xff", DType::kU8, {1}, std::vector<std::byte>(1)},
                                  {"__metadata__", DType::kU8, {1}, std::vector<std::byte>(1)},
                                  {"i", DType::kI4, {2}, std::vector<std::byte>(1)}});
  model.metadata.append("\xfe", MetaValue::string("x"));
  const auto problems = safetensors_writer().check(model, {});
  ASSERT_EQ(problems.size(), 5u);
  EXPECT_EQ(problems[0],
            "tensor 'q' is Q4_0, which safetensors cannot hold; --exclude it or cast it with --tensor-dtype");
  EXPECT_EQ(problems[1], "the name '\\xff' is not UTF-8; --rename it");
  EXPECT_EQ(problems[2], "a tensor is called '__metadata__', a reserved name; give it another with --rename");
  EXPECT_EQ(problems[3].find("tensor 'i' is I4"), 0u);
  EXPECT_EQ(problems[4], "metadata key '\\xfe' is not UTF-8; --unset it");
}

TEST(Writer, RefusesAHeaderThatNoReaderWouldTake) {
  Model model = test::make_model({{"a", DType::kU8, {1}, std::vector<std::byte>(1)}});
  model.metadata.append("k", MetaValue::string(std::string(100'000'000, 'x')));
  try {
    safetensors_writer().plan(model, {.file_name = "out"});
    FAIL() << "a header of 100 MB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

TEST(Shards, HaveHuggingFaceNamesAndAnIndex) {
  const test::TempDir dir;
  std::vector<test::TensorSpec> specs;
  for (unsigned i = 0; i < 5; ++i)
    specs.push_back({fmt::format("t{}", i), DType::kU8, {10}, std::vector<std::byte>(10, static_cast<std::byte>(i))});
  specs.push_back({"wide", DType::kU8, {50}, std::vector<std::byte>(50)});  // larger than a shard
  Model model = test::make_model(specs);
  model.metadata.append("format", MetaValue::string("pt"));
  write(model, dir / "model.safetensors", 20);
  EXPECT_EQ(dir.names(),
            (std::vector<std::string>{"model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                                      "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors",
                                      "model.safetensors.index.json"}));
  const auto index = nlohmann::json::parse(test::read_file(dir / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("metadata").at("total_size"), 100);
  EXPECT_EQ(index.at("weight_map").at("t0"), "model-00001-of-00004.safetensors");
  EXPECT_EQ(index.at("weight_map").at("t2"), "model-00002-of-00004.safetensors");
  EXPECT_EQ(index.at("weight_map").at("wide"), "model-00004-of-00004.safetensors");
  const Model shard = open_model(dir / "model-00002-of-00004.safetensors", {});
  EXPECT_EQ(*shard.metadata.find("format")->as_string(), "pt") << "transformers wants it in each shard";
  const Model back = open_model(dir / "model.safetensors.index.json", {});
  EXPECT_TRUE(back.findings.empty());
  ASSERT_EQ(back.tensors.size(), 6u);
  for (const Tensor& tensor : model.tensors) {
    EXPECT_EQ(test::read_all(back.tensors[static_cast<std::size_t>(find_tensor(back, tensor.info.name))]),
              test::read_all(tensor));
  }
}

TEST(Shards, OneShardIsAPlainFile) {
  const test::TempDir dir;
  write(test::make_model({{"a", DType::kU8, {10}, std::vector<std::byte>(10)}}), dir / "m.safetensors", 10);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"m.safetensors"});
}

TEST(Shards, InAFolderAreCalledModel) {
  const Model model = test::make_model(
      {{"a", DType::kU8, {1}, std::vector<std::byte>(1)}, {"b", DType::kU8, {1}, std::vector<std::byte>(1)}});
  WriteOptions options;
  options.folder = true;
  EXPECT_EQ(safetensors_writer().plan(model, options).files[0].name, "model.safetensors");
  options.shard_size = 1;
  const Layout layout = safetensors_writer().plan(model, options);
  ASSERT_EQ(layout.files.size(), 3u);
  EXPECT_EQ(layout.files[0].name, "model-00001-of-00002.safetensors");
  EXPECT_EQ(layout.files[2].name, "model.safetensors.index.json") << "last: it makes the others reachable";
}

// Random models come back as they were.
TEST(Property, WhatIsWrittenIsReadBack) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const test::TempDir dir;
    std::vector<test::TensorSpec> specs;
    for (unsigned t = 0; t < random() % 12; ++t) {
      const auto& all = all_dtypes();
      const DTypeInfo& dtype = all[random() % all.size()];
      if (dtype.safetensors.empty()) continue;
      std::vector<std::uint64_t> shape(random() % 4);
      for (auto& size : shape) size = random() % 5;
      if (!dtype.whole_bytes()) shape.push_back(dtype.block_elements);
      std::vector<std::byte> bytes(storage_bytes(dtype.dtype, shape));
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
      specs.push_back({fmt::format("{}.{}", random() % 100, t), dtype.dtype, shape, bytes});
    }
    write(test::make_model(specs), dir / "out");
    const Model back = open_model(dir / "out", {});
    ASSERT_EQ(back.tensors.size(), specs.size());
    for (const auto& spec : specs) {
      const Tensor& tensor = back.tensors[static_cast<std::size_t>(find_tensor(back, spec.name))];
      EXPECT_EQ(tensor.info.dtype, spec.dtype);
      EXPECT_EQ(tensor.info.shape, spec.shape);
      EXPECT_EQ(test::read_all(tensor), spec.bytes);
    }
  }
}

}  // namespace
}  // namespace wconv
