// What the fuzz targets rest on: a grammar loses nothing, and its mutations get past the outer layers of a format.
#include "structure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv::fuzz {
namespace {

struct Case {
  const char* name;
  const Grammar& (*grammar)();
  const char* file;  // below tests/
  bool same_bytes;   // written as it was read; an archive gets new headers
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

const Case kCases[] = {
    {"safetensors", safetensors_grammar, "formats/safetensors/golden/every_dtype.safetensors", true},
    {"safetensors_escapes", safetensors_grammar, "formats/safetensors/golden/names.safetensors", true},
    {"gguf_metadata", gguf_grammar, "formats/gguf/golden/metadata.gguf", true},
    {"gguf_types", gguf_grammar, "formats/gguf/golden/types.gguf", true},
    {"onnx_places", onnx_grammar, "formats/onnx/golden/places.onnx", true},
    {"onnx_lists", onnx_grammar, "formats/onnx/golden/lists.onnx", true},
    {"pickle_protocol_0", pickle_grammar, "formats/pytorch/golden/plain0.pkl", true},
    {"pickle_protocol_5", pickle_grammar, "formats/pytorch/golden/plain5.pkl", true},
    {"pickle_legacy", pickle_grammar, "cases/A03/legacy_p4.pth", true},
    {"zip_stored", zip_grammar, "formats/pytorch/golden/views.pth", false},
    {"zip_deflated", zip_grammar, "cases/A05/rezipped_deflate.pth", false},
};

// Tensors of the bytes, one line each; or the message with which they are refused.
std::string reading(const std::string& bytes, bool& opened) {
  opened = false;
  try {
    const Model model = open_file(File::from_bytes("input", std::as_bytes(std::span(bytes))), {});
    std::string text;
    for (const Tensor& tensor : model.tensors) {
      text += fmt::format("{} {} [{}] ", tensor.info.name, wconv::name(tensor.info.dtype),
                          fmt::join(tensor.info.shape, ","));
      for (const std::byte byte : test::read_all(tensor)) text += fmt::format("{:02x}", std::to_integer<int>(byte));
    }
    opened = true;
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

class Grammars : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    bytes_ = test::read_file((std::filesystem::path(WCONV_TEST_DATA) / GetParam().file).string());
    ASSERT_TRUE(GetParam().grammar().parse(bytes_, root_));
  }
  std::string bytes_;
  Node root_;
};

TEST_P(Grammars, WriteWhatTheyRead) {
  const std::string written = GetParam().grammar().write(root_);
  bool opened = false, opened_again = false;
  EXPECT_EQ(reading(written, opened), reading(bytes_, opened_again));
  EXPECT_EQ(opened, opened_again);
  if (GetParam().same_bytes) {
    EXPECT_EQ(written, bytes_);
  }
}

TEST_P(Grammars, MutationsGetPastTheOuterLayers) {
  constexpr int kMutations = 500;
  const Grammar& grammar = GetParam().grammar();
  bool is_model = false;
  const std::string before = reading(bytes_, is_model);
  int different = 0, other_models = 0, checksums = 0;
  for (int seed = 0; seed < kMutations; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    Node root = root_;
    mutate(root, grammar.words, random);
    if (grammar.settle != nullptr) grammar.settle(root);
    const std::string written = grammar.write(root);
    bool opened = false;
    const std::string after = reading(written, opened);
    different += written != bytes_;
    other_models += opened && after != before;
    checksums += after.find("CRC") != std::string::npos;
  }
  EXPECT_GT(different, kMutations * 6 / 10);
  if (is_model) {
    EXPECT_GE(other_models, kMutations / 100);
  }
  EXPECT_LT(checksums, kMutations / 10);
}

INSTANTIATE_TEST_SUITE_P(Files, Grammars, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Random, IsTheSameForOneSeed) {
  Random a(7), b(7), c(8);
  EXPECT_EQ(a.extreme(), b.extreme());
  EXPECT_NE(a.below(1'000'000'000), c.below(1'000'000'000));
}

TEST(Cursor, TakesNoMoreThanThereIs) {
  Cursor cursor("\x01\x02\x03");
  EXPECT_EQ(cursor.number(2), 0x0201u);
  EXPECT_EQ(cursor.take(2), "");
  EXPECT_FALSE(cursor.ok());
  Cursor varints("\x96\x01\xff");
  EXPECT_EQ(varints.varint(), 150u);
  varints.varint();
  EXPECT_FALSE(varints.ok());
}

}  // namespace
}  // namespace wconv::fuzz
