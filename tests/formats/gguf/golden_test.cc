// Files that the reference package wrote (golden/make.py).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

using wconv::test::read_all;
using wconv::test::read_file;

std::string golden(std::string_view name) {
  return std::string(WCONV_TEST_DATA "/formats/gguf/golden/") + std::string(name);
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
std::vector<std::byte> numbers(std::size_t n) {
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<T>(3 * static_cast<int>(i) - 5));
  return wconv::test::bytes_of(values);
}

template <typename T>
void expect_key(const Model& model, std::string_view key, MetaType type, const T& expected) {
  const MetaValue* value = model.metadata.find(key);
  ASSERT_NE(value, nullptr) << key;
  EXPECT_EQ(value->type, type) << key;
  EXPECT_EQ(std::get<T>(value->value), expected) << key;
}

template <typename T>
void expect_both(const Model& model, std::string_view name, MetaType type, const T& low, const T& high) {
  expect_key(model, "one." + std::string(name), type, high);
  const MetaValue* many = model.metadata.find("many." + std::string(name));
  ASSERT_NE(many, nullptr) << name;
  const auto& array = std::get<MetaArray>(many->value);
  EXPECT_EQ(array.element, type) << name;
  EXPECT_EQ(std::get<std::vector<T>>(array.values), (std::vector<T>{low, high})) << name;
}

void expect_golden_metadata(const Model& model) {
  using Unsigned = std::uint64_t;
  using Signed = std::int64_t;
  expect_key<std::string>(model, "general.architecture", MetaType::kString, "test");
  EXPECT_EQ(model.architecture, "test");
  expect_both<Unsigned>(model, "u8", MetaType::kU8, 0, 255);
  expect_both<Signed>(model, "i8", MetaType::kI8, -128, 127);
  expect_both<Unsigned>(model, "u16", MetaType::kU16, 0, 65535);
  expect_both<Signed>(model, "i16", MetaType::kI16, -32768, 32767);
  expect_both<Unsigned>(model, "u32", MetaType::kU32, 0, 0xffff'ffff);
  expect_both<Signed>(model, "i32", MetaType::kI32, std::numeric_limits<std::int32_t>::min(), 0x7fff'ffff);
  expect_both<Unsigned>(model, "u64", MetaType::kU64, 0, ~Unsigned{0});
  expect_both<Signed>(model, "i64", MetaType::kI64, std::numeric_limits<Signed>::min(),
                      std::numeric_limits<Signed>::max());
  expect_both<double>(model, "f32", MetaType::kF32, double{-0.1f}, INFINITY);
  expect_both<double>(model, "f64", MetaType::kF64, 1e-300, -INFINITY);
  expect_both<Unsigned>(model, "bool", MetaType::kBool, 0, 1);
  expect_both<std::string>(model, "string", MetaType::kString, "", "Grüße\n");
  expect_key<std::string>(model, "bytes", MetaType::kString, std::string("\0\xff\xfe", 3));
  EXPECT_EQ(metadata_json(*model.metadata.find("nested")), "[[1,2],[-3]]");
  EXPECT_EQ(metadata_json(*model.metadata.find("deeper")), R"([[["a"],["b","c"]],[["d"]]])");
}

struct Expected {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

void expect_plain_tensors(const Model& model) {
  const std::vector<std::uint16_t> halves = {0xc500, 0xc000, 0x3c00};  // -5, -2, 1
  const std::vector<Expected> expected = {
      {"f32", DType::kF32, {2, 3}, numbers<float>(6)},
      {"f16", DType::kF16, {3}, wconv::test::bytes_of(halves)},
      {"f64", DType::kF64, {1, 2, 2}, numbers<double>(4)},
      {"i8", DType::kI8, {4}, numbers<std::int8_t>(4)},
      {"i16", DType::kI16, {2, 1, 3}, numbers<std::int16_t>(6)},
      {"i32", DType::kI32, {2, 1, 1, 2}, numbers<std::int32_t>(4)},
      {"i64", DType::kI64, {5}, numbers<std::int64_t>(5)},
  };
  ASSERT_EQ(model.tensors.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Tensor& tensor = model.tensors[i];
    EXPECT_EQ(tensor.info.name, expected[i].name);
    EXPECT_EQ(tensor.info.dtype, expected[i].dtype) << tensor.info.name;
    EXPECT_EQ(tensor.source_dtype, expected[i].dtype) << tensor.info.name;
    EXPECT_EQ(tensor.info.shape, expected[i].shape) << tensor.info.name;
    EXPECT_EQ(read_all(tensor), expected[i].bytes) << tensor.info.name;
  }
}

TEST(GgufGolden, EveryMetadataTypeAndPlainTensorsAtAlignment64) {
  const Model model = open_path(golden("metadata.gguf"));
  expect_golden_metadata(model);
  expect_plain_tensors(model);
  for (const Tensor& tensor : model.tensors) {
    EXPECT_EQ(tensor.source_offset % 64, 0u) << tensor.info.name;
    EXPECT_EQ(tensor.source_file->path(), golden("metadata.gguf"));
    EXPECT_TRUE(tensor.source_name.empty());
  }
  EXPECT_TRUE(model.findings.empty()) << model.findings.front().message;
}

TEST(GgufGolden, BigEndianHasTheSameValues) {
  const Model model = open_path(golden("big_endian.gguf"));
  expect_golden_metadata(model);
  expect_plain_tensors(model);
}

TEST(GgufGolden, EveryTypeOfGgml) {
  // The order of gguf's list of types, without Q8_1.
  const std::vector<DType> types = {DType::kF32,     DType::kF16,    DType::kQ4_0,    DType::kQ4_1,
                                    DType::kQ5_0,    DType::kQ5_1,   DType::kQ8_0,    DType::kF32 /* Q8_1 */,
                                    DType::kQ2_K,    DType::kQ3_K,   DType::kQ4_K,    DType::kQ5_K,
                                    DType::kQ6_K,    DType::kQ8_K,   DType::kIQ2_XXS, DType::kIQ2_XS,
                                    DType::kIQ3_XXS, DType::kIQ1_S,  DType::kIQ4_NL,  DType::kIQ3_S,
                                    DType::kIQ2_S,   DType::kIQ4_XS, DType::kI8,      DType::kI16,
                                    DType::kI32,     DType::kI64,    DType::kF64,     DType::kIQ1_M,
                                    DType::kBF16,    DType::kTQ1_0,  DType::kTQ2_0,   DType::kMXFP4,
                                    DType::kNVFP4,   DType::kQ1_0};
  constexpr std::size_t kQ8_1Place = 7;
  const Model model = open_path(golden("types.gguf"));
  ASSERT_EQ(model.tensors.size(), types.size() - 1);
  for (std::size_t t = 0; t < types.size(); ++t) {
    if (t == kQ8_1Place) continue;
    const Tensor& tensor = model.tensors[t < kQ8_1Place ? t : t - 1];
    EXPECT_EQ(tensor.info.name, name(types[t]));
    EXPECT_EQ(tensor.info.dtype, types[t]) << tensor.info.name;
    EXPECT_EQ(tensor.info.shape, (std::vector<std::uint64_t>{1, info(types[t]).block_elements})) << tensor.info.name;
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < info(types[t]).block_bytes; ++i) bytes.push_back(static_cast<std::byte>(7 * i + t));
    EXPECT_EQ(read_all(tensor), bytes) << tensor.info.name;
  }
}

TEST(GgufGolden, SplitFilesAreOneModel) {
  const Model model = open_path(golden("split-00001-of-00003.gguf"));
  ASSERT_EQ(model.tensors.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::string expected(1, static_cast<char>('a' + i));
    EXPECT_EQ(model.tensors[i].info.name, expected);
    const float first = static_cast<float>('a' + i) - 5;
    EXPECT_EQ(floats(model.tensors[i]), (std::vector<float>{first, first + 3, first + 6, first + 9}));
    EXPECT_EQ(model.tensors[i].source_file->path(),
              golden("split-0000" + std::to_string(i / 2 + 1) + "-of-00003.gguf"));
  }
  EXPECT_EQ(model.files.size(), 3u);
  expect_key<std::string>(model, "general.name", MetaType::kString, "three parts");
  EXPECT_EQ(model.metadata.find("split.count"), nullptr);
  EXPECT_TRUE(model.findings.empty()) << model.findings.front().message;
}

TEST(GgufGolden, WritesTheBytesThatTheReferenceWrote) {
  for (const char* name : {"metadata.gguf", "types.gguf"}) {
    const std::string bytes = text_of(written(open_path(golden(name))));
    EXPECT_TRUE(bytes == read_file(golden(name))) << name;
  }
}

TEST(GgufGolden, BigEndianIsWrittenAsLittleEndian) {
  const Model model = open(written(open_path(golden("big_endian.gguf"))));
  expect_golden_metadata(model);
  expect_plain_tensors(model);
}

}  // namespace
}  // namespace wconv::gguf::test
