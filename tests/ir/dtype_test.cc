#include "wconv/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "wconv/error.h"

namespace wconv {
namespace {

TEST(DTypeTable, RowsStandInTheOrderOfTheEnum) {
  for (std::size_t i = 0; i < all_dtypes().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(all_dtypes()[i].dtype), i);
  }
  EXPECT_EQ(all_dtypes().back().dtype, DType::kQ2_0);
}

TEST(DTypeTable, NamesAreUniqueAndFound) {
  std::set<std::string_view> names, safetensors, torch;
  std::set<int> ggml, onnx;
  for (const DTypeInfo& row : all_dtypes()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(dtype_from_name(row.name), row.dtype);
    EXPECT_TRUE(row.safetensors.empty() || safetensors.insert(row.safetensors).second) << row.name;
    EXPECT_TRUE(row.torch.empty() || torch.insert(row.torch).second) << row.name;
    EXPECT_TRUE(row.ggml < 0 || ggml.insert(row.ggml).second) << row.name;
    EXPECT_TRUE(row.onnx < 0 || onnx.insert(row.onnx).second) << row.name;
  }
  EXPECT_EQ(dtype_from_name("bf16"), DType::kBF16);
  EXPECT_EQ(dtype_from_name("q4_k"), DType::kQ4_K);
  EXPECT_FALSE(dtype_from_name("float"));
  EXPECT_FALSE(dtype_from_safetensors("f32"));
  EXPECT_FALSE(dtype_from_safetensors(""));
  for (const std::uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, ~0u}) {
    EXPECT_FALSE(dtype_from_ggml(removed)) << removed;
  }
}

// (block elements, block bytes) as gguf-py 0.19's GGML_QUANT_SIZES has them; Q8_1 there is 40, ggml-common.h
// asserts 36.
TEST(DTypeTable, GgmlSizesAreThoseOfGgml) {
  const std::tuple<DType, int, int> known[] = {
      {DType::kQ4_0, 32, 18},    {DType::kQ4_1, 32, 20},     {DType::kQ5_0, 32, 22},     {DType::kQ5_1, 32, 24},
      {DType::kQ8_0, 32, 34},    {DType::kQ2_K, 256, 84},    {DType::kQ3_K, 256, 110},   {DType::kQ4_K, 256, 144},
      {DType::kQ5_K, 256, 176},  {DType::kQ6_K, 256, 210},   {DType::kQ8_K, 256, 292},   {DType::kIQ2_XXS, 256, 66},
      {DType::kIQ2_XS, 256, 74}, {DType::kIQ3_XXS, 256, 98}, {DType::kIQ1_S, 256, 50},   {DType::kIQ4_NL, 32, 18},
      {DType::kIQ3_S, 256, 110}, {DType::kIQ2_S, 256, 82},   {DType::kIQ4_XS, 256, 136}, {DType::kIQ1_M, 256, 56},
      {DType::kTQ1_0, 256, 54},  {DType::kTQ2_0, 256, 66},   {DType::kMXFP4, 32, 17},    {DType::kNVFP4, 64, 36},
      {DType::kQ1_0, 128, 18},   {DType::kQ2_0, 64, 18}};
  for (const auto& [dtype, elements, bytes] : known) {
    EXPECT_EQ(info(dtype).block_elements, elements) << name(dtype);
    EXPECT_EQ(info(dtype).block_bytes, bytes) << name(dtype);
  }
}

TEST(StorageBytes, CountsBlocksAndRefusesPartialOnes) {
  EXPECT_EQ(storage_bytes(DType::kF32, std::vector<std::uint64_t>{2, 3}), 24u);
  EXPECT_EQ(storage_bytes(DType::kF32, {}), 4u);
  EXPECT_EQ(storage_bytes(DType::kF32, std::vector<std::uint64_t>{0, 7}), 0u);
  EXPECT_EQ(storage_bytes(DType::kQ4_K, std::vector<std::uint64_t>{3, 512}), 3u * 2 * 144);
  EXPECT_THROW(storage_bytes(DType::kQ4_K, std::vector<std::uint64_t>{512, 3}), Error);
  EXPECT_EQ(storage_bytes(DType::kF4, std::vector<std::uint64_t>{2, 3}), 3u);
  EXPECT_THROW(storage_bytes(DType::kF4, std::vector<std::uint64_t>{3}), Error);
  EXPECT_EQ(storage_bytes(DType::kF6E2M3, std::vector<std::uint64_t>{8}), 6u);
  EXPECT_EQ(storage_bytes(DType::kI4, std::vector<std::uint64_t>{3}), 2u);  // ONNX pads the odd tail
}

TEST(StorageBytes, RefusesOverflow) {
  const std::uint64_t big = std::uint64_t{1} << 32;
  EXPECT_THROW(storage_bytes(DType::kU8, std::vector<std::uint64_t>{big, big}), Error);
  EXPECT_THROW(storage_bytes(DType::kF32, std::vector<std::uint64_t>{std::uint64_t{1} << 62}), Error);
  EXPECT_THROW(element_count(std::vector<std::uint64_t>{big, big, 0}), Error);  // as the reference crate
}

}  // namespace
}  // namespace wconv
