#include <gtest/gtest.h>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

using test::bytes_of;
using test::make_model;

Model model() {
  return make_model({{"a", DType::kF32, {2}, bytes_of({1.f, 2.f})}, {"b", DType::kF32, {1}, bytes_of({3.f})}});
}

void expect_usage(const Model& weights, std::string_view text) {
  try {
    replace_weights(model(), weights);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos) << error.what();
  }
}

TEST(ReplaceWeights, DataAndTypeOfTheSameName) {
  const Model weights = make_model({{"a", DType::kU8, {2}, bytes_of<std::uint8_t>({7, 8})}});
  const Model changed = replace_weights(model(), weights);
  ASSERT_EQ(changed.tensors.size(), 2u);
  EXPECT_EQ(changed.tensors[0].info.dtype, DType::kU8);
  EXPECT_EQ(changed.tensors[0].data, weights.tensors[0].data);
  ASSERT_EQ(changed.tensors[0].transforms.size(), 1u);
  EXPECT_EQ(changed.tensors[0].transforms[0].op, "replace");
  EXPECT_EQ(test::read_all(changed.tensors[1]), bytes_of({3.f}));
  EXPECT_TRUE(changed.tensors[1].transforms.empty());
}

// The engine reads their files: they are inputs as the model's own.
TEST(ReplaceWeights, FilesAndChecksGoAlong) {
  const test::TempDir dir;
  Model weights = make_model({{"a", DType::kF32, {2}, bytes_of({4.f, 5.f})}});
  test::write_file(dir / "w", "bytes");
  const auto file = File::open(dir / "w");
  weights.files.push_back({file->path(), file->size(), file});
  test::add_record(weights, file, 0, 5, 1, "record");
  const Model changed = replace_weights(model(), weights);
  ASSERT_EQ(changed.files.size(), 1u);
  EXPECT_EQ(changed.files[0].file, file);
  EXPECT_EQ(changed.checks.size(), 1u);
}

TEST(ReplaceWeights, WhatDoesNotFit) {
  expect_usage(make_model({{"aa", DType::kF32, {2}, bytes_of({4.f, 5.f})}}),
               "1 of the 1 tensors are not in memory: 'aa'; the nearest name is 'a'");
  expect_usage(make_model({{"a", DType::kF32, {1, 2}, bytes_of({4.f, 5.f})}}),
               "tensor 'a': it has the shape [1,2], the model has [2]");
}

}  // namespace
}  // namespace wconv
