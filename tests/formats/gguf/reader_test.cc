// Sound files of every version, byte order and alignment, and what is worth a warning in them.
#include <gtest/gtest.h>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

using wconv::test::read_all;

// One key of each width, one array, and the tensor t = [[1, 2, 3], [4, 5, 6]].
FileBuilder small_file(std::uint32_t version, Order order, std::uint32_t alignment = 0) {
  FileBuilder file(version, order);
  file.head(1, alignment == 0 ? 3 : 4).architecture();
  if (alignment != 0) file.alignment(alignment);
  file.key("a.number", MetaType::kI16).number(std::int16_t{-2});
  file.key("a.list", MetaType::kArray).u32(static_cast<std::uint32_t>(MetaType::kString)).count(2);
  file.string("x").string("yz");
  file.tensor("t", {3, 2}, kTypeF32, 0).pad(alignment == 0 ? 32 : alignment);
  for (const float value : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}) file.number(value);
  return file;
}

void expect_small(const Model& model) {
  EXPECT_EQ(model.format, "gguf");
  EXPECT_EQ(model.architecture, "test");
  EXPECT_EQ(std::get<std::int64_t>(model.metadata.find("a.number")->value), -2);
  EXPECT_EQ(metadata_json(*model.metadata.find("a.list")), R"(["x","yz"])");
  ASSERT_EQ(model.tensors.size(), 1u);
  EXPECT_EQ(model.tensors[0].info.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(floats(model.tensors[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(model.findings.empty()) << model.findings.front().message;
}

TEST(GgufReader, EveryVersionInBothByteOrders) {
  for (const std::uint32_t version : {1u, 2u, 3u})
    for (const Order order : {Order::kLittle, Order::kBig}) expect_small(open(small_file(version, order)));
}

TEST(GgufReader, EveryAlignment) {
  for (std::uint32_t alignment = 1; alignment <= 65536; alignment *= 2) {
    const Model model = open(small_file(3, Order::kLittle, alignment));
    expect_small(model);
    EXPECT_EQ(model.tensors[0].source_offset % alignment, 0u) << alignment;
  }
}

TEST(GgufReader, ProbesTheMagicOnly) {
  EXPECT_TRUE(gguf_reader().probe(FileBuilder().text("GGUF").bytes()));
  EXPECT_FALSE(gguf_reader().probe(FileBuilder().text("GGU").bytes()));
  EXPECT_FALSE(gguf_reader().probe(FileBuilder().text("FUGG").bytes()));
}

TEST(GgufReader, LittleEndianDataLiesInTheFileAsItIs) {
  const Model little = open(small_file(3, Order::kLittle)), big = open(small_file(3, Order::kBig));
  ASSERT_TRUE(little.tensors[0].data->file_range().has_value());
  EXPECT_EQ(little.tensors[0].data->file_range()->offset, little.tensors[0].source_offset);
  EXPECT_FALSE(big.tensors[0].data->file_range().has_value());
}

TEST(GgufReader, ScalarsAndEmptyTensors) {
  FileBuilder file;
  file.head(3, 1).architecture().tensor("scalar", {}, kTypeF32, 0).tensor("empty", {0, 4}, kTypeF32, 32);
  file.tensor("after", {1}, kTypeF32, 32).pad(32).number(7.f).pad(32).number(8.f);
  const Model model = open(file);
  EXPECT_EQ(model.tensors[0].info.shape, (std::vector<std::uint64_t>{}));
  EXPECT_EQ(floats(model.tensors[0]), (std::vector<float>{7}));
  EXPECT_EQ(model.tensors[1].info.shape, (std::vector<std::uint64_t>{4, 0}));
  EXPECT_EQ(model.tensors[1].data->size_bytes(), 0u);
  EXPECT_EQ(floats(model.tensors[2]), (std::vector<float>{8}));
  EXPECT_TRUE(model.findings.empty()) << model.findings.front().message;
}

TEST(GgufReader, AnEmptyTensorMayLieAtTheUnpaddedEnd) {
  FileBuilder file;
  file.head(2, 1).architecture().tensor("t", {1}, kTypeF32, 0).tensor("empty", {0}, kTypeF32, 0).pad(32).number(7.f);
  EXPECT_EQ(open(file).tensors.size(), 2u);
}

TEST(GgufReader, TensorsWithoutData) {
  FileBuilder file;
  file.head(1, 1).architecture().tensor("empty", {0}, kTypeF32, 0);  // no padding after the table
  EXPECT_EQ(open(file).tensors.at(0).data->size_bytes(), 0u);
  EXPECT_TRUE(open(FileBuilder().head(0, 0)).tensors.empty());
}

TEST(GgufReader, OneByteTypesOfBigEndianFilesNeedNoSwap) {
  FileBuilder file(3, Order::kBig);
  file.head(1, 1).architecture().tensor("t", {4}, 24 /* I8 */, 0).pad(32).text("abcd");
  const Model model = open(file);
  EXPECT_EQ(read_all(model.tensors[0]), FileBuilder().text("abcd").bytes());
  EXPECT_TRUE(model.tensors[0].data->file_range().has_value());
}

Model two_tensors(std::uint64_t first, std::uint64_t second, std::size_t data) {
  FileBuilder file;
  file.head(2, 1).architecture().tensor("t", {8}, kTypeF32, first).tensor("u", {8}, kTypeF32, second).pad(32);
  return open(file.zeros(data));
}

TEST(GgufReader, WarnsOfWhatLlamaCppRefuses) {
  EXPECT_TRUE(two_tensors(0, 32, 64).findings.empty());
  EXPECT_TRUE(has_finding(two_tensors(0, 64, 96), "gguf-gap", "32 unused bytes before tensor 'u'"));
  EXPECT_TRUE(has_finding(two_tensors(32, 64, 96), "gguf-gap", "32 unused bytes before tensor 't'"));
  EXPECT_TRUE(has_finding(two_tensors(32, 0, 64), "gguf-order", "tensor 'u' comes before that of 't'"));
  EXPECT_TRUE(has_finding(two_tensors(0, 32, 64 + 100), "gguf-trailing", "100 bytes"));
  EXPECT_TRUE(two_tensors(0, 32, 64 + 31).findings.empty());
}

Model named(std::string_view name) {
  FileBuilder file;
  return open(file.head(1, 1).architecture().tensor(name, {1}, kTypeF32, 0).pad(32).number(1.f));
}

TEST(GgufReader, WarnsOfNamesThatLlamaCppCannotLoad) {
  EXPECT_TRUE(named(std::string(63, 'n')).findings.empty());
  EXPECT_TRUE(has_finding(named(std::string(64, 'n')), "gguf-name", "64 bytes; llama.cpp loads at most 63"));
  EXPECT_TRUE(has_finding(named(""), "gguf-name", "has no name"));
  EXPECT_TRUE(has_finding(named(std::string_view("a\0b", 3)), "gguf-name", "'a\\x00b' has a NUL byte"));
  EXPECT_TRUE(has_finding(named("\xff"), "gguf-name", "'\\xff' is not UTF-8"));
}

TEST(GgufReader, ListsEightFindingsOfAKindAndCountsTheRest) {
  FileBuilder file;
  file.head(20, 1).architecture();
  for (int i = 0; i < 20; ++i) file.tensor(std::string(64, static_cast<char>('a' + i)), {0}, kTypeF32, 0);
  const Model model = open(file);
  EXPECT_EQ(model.findings.size(), 9u);
  EXPECT_TRUE(has_finding(model, "gguf-name", "and 12 more of the same kind"));
}

// Whatever is cut off, the file is refused: nothing is read from where nothing is.
TEST(GgufReader, EveryPrefixIsRefused) {
  for (const std::uint32_t version : {1u, 3u}) {
    const auto bytes = small_file(version, Order::kLittle).bytes();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Refusal refused = refusal([&] { open(std::span(bytes).first(size)); });
      EXPECT_EQ(refused.code, ErrorCode::kCorrupt) << size << refused.text;
      ASSERT_TRUE(refused.offset.has_value()) << size << refused.text;
      EXPECT_LE(*refused.offset, size) << refused.text;
    }
  }
}

// Any byte of the header changed to anything: refused, or tensors that lie in the file.
TEST(GgufReader, EveryChangedByteIsReadOrRefused) {
  const auto sound = small_file(3, Order::kLittle).bytes();
  std::size_t read = 0, refused = 0;
  for (std::size_t at = 0; at + 24 < sound.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      auto bytes = sound;
      bytes[at] ^= static_cast<std::byte>(change);
      try {
        for (const Tensor& tensor : open(bytes).tensors)
          EXPECT_EQ(read_all(tensor).size(), storage_bytes(tensor.info.dtype, tensor.info.shape));
        ++read;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, read / 4);
}

}  // namespace
}  // namespace wconv::gguf::test
