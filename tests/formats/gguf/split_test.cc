// Models cut into several files.
#include <gtest/gtest.h>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

using wconv::test::TempDir;
using wconv::test::write_file;

struct PartSpec {
  std::uint16_t no = 0, count = 2;
  std::int32_t total = 2;
  std::vector<std::string> tensors;
};

// Every tensor is one F32: the code of its name's first letter.
std::vector<std::byte> part_bytes(const PartSpec& part) {
  FileBuilder file;
  file.head(part.tensors.size(), 3).key("split.no", MetaType::kU16).number(part.no);
  file.key("split.count", MetaType::kU16).number(part.count);
  file.key("split.tensors.count", MetaType::kI32).number(part.total);
  for (std::size_t i = 0; i < part.tensors.size(); ++i) file.tensor(part.tensors[i], {1}, kTypeF32, 32 * i);
  for (const std::string& name : part.tensors) file.pad(32).number(static_cast<float>(name[0]));
  return file.bytes();
}

class GgufSplit : public testing::Test {
 protected:
  std::string add(std::string_view name, const PartSpec& part) {
    write_file(dir_ / name, part_bytes(part));
    return dir_ / name;
  }
  Refusal refused(const std::string& path) {
    return refusal([&] { open_path(path); });
  }
  TempDir dir_;
};

void expect_refusal(const Refusal& refused, ErrorCode code, std::string_view file, std::string_view message) {
  EXPECT_EQ(refused.code, code) << refused.text;
  EXPECT_NE(refused.text.find(std::string(file) + ": "), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find(message), std::string::npos) << refused.text;
}

TEST_F(GgufSplit, PartsAreOneModel) {
  const std::string path = add("m-00001-of-00002.gguf", {.no = 0, .tensors = {"a"}});
  add("m-00002-of-00002.gguf", {.no = 1, .tensors = {"b"}});
  const Model model = open_path(path);
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(floats(model.tensors[1]), std::vector<float>{'b'});
  EXPECT_EQ(model.tensors[1].source_file->path(), dir_ / "m-00002-of-00002.gguf");
  EXPECT_EQ(model.path, path);
  EXPECT_EQ(model.files.size(), 2u);
  EXPECT_TRUE(model.metadata.empty());
}

TEST_F(GgufSplit, TwoModelsInAFolderAreNotOne) {
  for (const std::string name : {"m", "n"}) {
    add(name + "-00001-of-00002.gguf", {.no = 0, .tensors = {"a"}});
    add(name + "-00002-of-00002.gguf", {.no = 1, .tensors = {"b"}});
  }
  EXPECT_EQ(refused(dir_.path().string()).code, ErrorCode::kUsage);
}

TEST_F(GgufSplit, APartWithoutTensors) {
  const std::string path = add("m-00001-of-00002.gguf", {.no = 0, .total = 1, .tensors = {}});
  add("m-00002-of-00002.gguf", {.no = 1, .total = 1, .tensors = {"b"}});
  EXPECT_EQ(open_path(path).tensors.size(), 1u);
}

TEST_F(GgufSplit, OnePartOfOneNeedsNoName) {
  EXPECT_EQ(open_path(add("any.gguf", {.count = 1, .total = 1, .tensors = {"a"}})).tensors.size(), 1u);
  expect_refusal(refused(add("any.gguf", {.count = 1, .total = 3, .tensors = {"a"}})), ErrorCode::kCorrupt, "any.gguf",
                 "split.tensors.count is 3, but the model has 1 tensors");
}

TEST_F(GgufSplit, MissingPart) {
  const std::string path = add("m-00001-of-00003.gguf", {.count = 3, .tensors = {"a"}});
  expect_refusal(refused(path), ErrorCode::kMissing, "m-00001-of-00003.gguf",
                 "part 2 of 3 missing: m-00002-of-00003.gguf");
}

TEST_F(GgufSplit, RefusalsOfThePartGivenNameThePlace) {
  EXPECT_EQ(refused(add("m-00002-of-00002.gguf", {.no = 1, .tensors = {"b"}})).offset, 24u) << "split.no";
  EXPECT_EQ(refused(add("renamed.gguf", {.no = 0, .tensors = {"a"}})).offset, 46u) << "split.count";
}

TEST_F(GgufSplit, InMemoryNothingIsBesideIt) {
  const auto file = File::from_bytes("m-00001-of-00002.gguf", part_bytes({.tensors = {"a"}}));
  EXPECT_EQ(refusal([&] { gguf_reader().open(file, {}); }).code, ErrorCode::kMissing);
}

TEST_F(GgufSplit, ALaterPartNamesTheFirst) {
  expect_refusal(refused(add("m-00002-of-00002.gguf", {.no = 1, .tensors = {"b"}})), ErrorCode::kUsage,
                 "m-00002-of-00002.gguf", "this is part 2 of 2 of a split model; give m-00001-of-00002.gguf instead");
  expect_refusal(refused(add("b.gguf", {.no = 1, .tensors = {"b"}})), ErrorCode::kUsage, "b.gguf",
                 "give the first part instead");
}

TEST_F(GgufSplit, ARenamedFirstPart) {
  expect_refusal(refused(add("model.gguf", {.tensors = {"a"}})), ErrorCode::kCorrupt, "model.gguf",
                 "its name does not end in '-00001-of-00002.gguf'");
}

TEST_F(GgufSplit, PartsThatDoNotBelongTogether) {
  const std::string path = add("m-00001-of-00002.gguf", {.tensors = {"a"}}), second = "m-00002-of-00002.gguf";
  add(second, {.no = 0, .tensors = {"b"}});
  expect_refusal(refused(path), ErrorCode::kCorrupt, second, "split.no is 0; as this part of the model it must be 1");
  add(second, {.no = 1, .count = 3, .tensors = {"b"}});
  expect_refusal(refused(path), ErrorCode::kCorrupt, second,
                 "split.count is 3; as this part of the model it must be 2");
  add(second, {.no = 1, .total = 9, .tensors = {"b"}});
  expect_refusal(refused(path), ErrorCode::kCorrupt, second, "split.tensors.count is 9");
  EXPECT_TRUE(refused(path).offset.has_value());
  write_file(dir_ / second, FileBuilder().head(0, 0).bytes());
  expect_refusal(refused(path), ErrorCode::kCorrupt, second, "there is no split.count");
  write_file(dir_ / second, "<html>");
  expect_refusal(refused(path), ErrorCode::kCorrupt, second, "does not begin with 'GGUF'");
}

TEST_F(GgufSplit, OneNameInTwoParts) {
  const std::string path = add("m-00001-of-00002.gguf", {.tensors = {"a"}});
  add("m-00002-of-00002.gguf", {.no = 1, .tensors = {"a"}});
  const Refusal refused = refusal([&] { open_path(path); });
  expect_refusal(refused, ErrorCode::kCorrupt, "m-00002-of-00002.gguf",
                 "tensor 'a': the tensor is in another part too");
  EXPECT_TRUE(refused.offset.has_value());
}

TEST_F(GgufSplit, FewerTensorsThanStated) {
  const std::string path = add("m-00001-of-00002.gguf", {.total = 5, .tensors = {"a"}});
  add("m-00002-of-00002.gguf", {.no = 1, .total = 5, .tensors = {"b"}});
  expect_refusal(refused(path), ErrorCode::kCorrupt, "m-00001-of-00002.gguf",
                 "split.tensors.count is 5, but the model has 2 tensors");
}

TEST_F(GgufSplit, KeysOfTheWrongType) {
  FileBuilder text;
  text.head(0, 1).key("split.count", MetaType::kString).string("2");
  write_file(dir_ / "m.gguf", text.bytes());
  expect_refusal(refused(dir_ / "m.gguf"), ErrorCode::kCorrupt, "m.gguf",
                 "metadata key 'split.count' is of type string and not a number from 0 on");
  FileBuilder huge;
  huge.head(0, 1).key("split.count", MetaType::kU64).u64(~0ull);
  write_file(dir_ / "m.gguf", huge.bytes());
  expect_refusal(refused(dir_ / "m.gguf"), ErrorCode::kCorrupt, "m.gguf",
                 "split.count is 18446744073709551615; at most 65535 parts");
  expect_refusal(refused(add("m-00003-of-00002.gguf", {.no = 2, .tensors = {}})), ErrorCode::kCorrupt,
                 "m-00003-of-00002.gguf", "split.no is 2, but split.count is 2");
}

}  // namespace
}  // namespace wconv::gguf::test
