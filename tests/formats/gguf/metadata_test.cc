// Metadata is exact from file to file, and what does not fit together is a warning.
#include <gtest/gtest.h>

#include <random>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

constexpr std::uint32_t id(MetaType type) { return static_cast<std::uint32_t>(type); }

// Little-endian, version 3, no tensors: reading and writing must give the same bytes.
void expect_same_bytes(const FileBuilder& file) { EXPECT_TRUE(written(open(file)) == file.bytes()); }

TEST(GgufMetadata, EveryScalarIsExact) {
  FileBuilder file;
  file.head(0, 13).architecture();
  file.key("u8", MetaType::kU8).number(std::uint8_t{255}).key("i8", MetaType::kI8).number(std::int8_t{-128});
  file.key("u16", MetaType::kU16).number(std::uint16_t{65535}).key("i16", MetaType::kI16).number(std::int16_t{-32768});
  file.key("u32", MetaType::kU32).u32(~0u).key("i32", MetaType::kI32).number(std::int32_t{-7});
  file.key("u64", MetaType::kU64).u64(~0ull).key("i64", MetaType::kI64).number(std::int64_t{-1});
  file.key("f32", MetaType::kF32).number(0.1f).key("f64", MetaType::kF64).number(-0.0);
  file.key("bool", MetaType::kBool).u8(1).key("text", MetaType::kString).string(std::string_view("\0\xff\n", 3));
  expect_same_bytes(file);
}

TEST(GgufMetadata, SpecialFloatsAreExact) {
  FileBuilder file;
  file.head(0, 2).key("f32", MetaType::kArray).u32(id(MetaType::kF32)).u64(5);
  for (const std::uint32_t bits : {0x7f80'0000u, 0xff80'0000u, 0x7fc0'1234u, 0x0000'0001u, 0x8000'0000u})
    file.u32(bits);
  file.key("f64", MetaType::kArray).u32(id(MetaType::kF64)).u64(3);
  for (const std::uint64_t bits : {0x7ff8'0000'0000'0001ull, 1ull, 0xfff0'0000'0000'0000ull}) file.u64(bits);
  expect_same_bytes(file);
}

TEST(GgufMetadata, EmptyArraysKeepTheirElementType) {
  FileBuilder file;
  file.head(0, 13);
  for (std::uint32_t type = 0; type <= id(MetaType::kF64); ++type)
    file.key("k" + std::to_string(type), MetaType::kArray).u32(type).u64(0);
  expect_same_bytes(file);
}

TEST(GgufMetadata, ArraysInArraysAreExact) {
  FileBuilder file;
  file.head(0, 1).key("k", MetaType::kArray).u32(id(MetaType::kArray)).u64(3);
  file.u32(id(MetaType::kU8)).u64(2).u8(1).u8(2);  // each inner array has a type of its own
  file.u32(id(MetaType::kArray)).u64(1).u32(id(MetaType::kString)).u64(1).string("deep");
  file.u32(id(MetaType::kBool)).u64(0);
  expect_same_bytes(file);
  EXPECT_EQ(metadata_json(*open(file).metadata.find("k")), R"([[1,2],[["deep"]],[]])");
}

TEST(GgufMetadata, SixteenDeepIsTheMost) {
  FileBuilder file;
  file.head(0, 1).key("k", MetaType::kArray);
  for (int depth = 1; depth < 16; ++depth) file.u32(id(MetaType::kArray)).u64(1);
  expect_same_bytes(file.u32(id(MetaType::kU8)).u64(1).u8(9));
}

TEST(GgufMetadata, ABoolOfAnotherByteIsKeptAndReported) {
  FileBuilder file;
  file.head(0, 2).key("a", MetaType::kBool).u8(2).key("b", MetaType::kArray).u32(id(MetaType::kBool)).u64(3);
  file.u8(0).u8(7).u8(9);
  expect_same_bytes(file);
  const Model model = open(file);
  EXPECT_TRUE(has_finding(model, "gguf-bool", "'a' has 1 bool"));
  EXPECT_TRUE(has_finding(model, "gguf-bool", "'b' has 2 bool"));
}

TEST(GgufMetadata, EmptyKeysAreReadAndReported) {
  EXPECT_TRUE(has_finding(open(FileBuilder().head(0, 1).key("", MetaType::kU8).u8(1)), "gguf-empty-key", "at byte 24"));
}

TEST(GgufMetadata, OrderIsKept) {
  FileBuilder file;
  file.head(0, 3).key("z", MetaType::kU8).u8(1).key("a", MetaType::kU8).u8(2).key("m", MetaType::kU8).u8(3);
  std::string keys;
  for (const auto& [key, value] : open(file).metadata) keys += key;
  EXPECT_EQ(keys, "zam");
  expect_same_bytes(file);
}

void random_value(FileBuilder& file, std::mt19937& random, std::uint32_t type, int depth);

void random_array(FileBuilder& file, std::mt19937& random, int depth) {
  const auto element = static_cast<std::uint32_t>(random() % (depth < 5 ? 13 : 9));
  const std::uint64_t n = random() % 4;
  file.u32(element).u64(n);
  for (std::uint64_t i = 0; i < n; ++i) random_value(file, random, element, depth + 1);
}

void random_value(FileBuilder& file, std::mt19937& random, std::uint32_t type, int depth) {
  switch (static_cast<MetaType>(type)) {
    case MetaType::kString:
      file.string(std::string(random() % 40, static_cast<char>(random())));
      break;
    case MetaType::kArray:
      random_array(file, random, depth);
      break;
    case MetaType::kF32:
      file.number(static_cast<float>(random()) / 7);
      break;
    case MetaType::kF64:
      file.number(static_cast<double>(random()) / 7);
      break;
    case MetaType::kBool:
      file.u8(random() % 2);
      break;
    case MetaType::kU8:
    case MetaType::kI8:
      file.u8(static_cast<std::uint8_t>(random()));
      break;
    case MetaType::kU16:
    case MetaType::kI16:
      file.number(static_cast<std::uint16_t>(random()));
      break;
    case MetaType::kU32:
    case MetaType::kI32:
      file.u32(static_cast<std::uint32_t>(random()));
      break;
    case MetaType::kU64:
    case MetaType::kI64:
      file.u64(std::uint64_t{random()} << 32 | random());
      break;
  }
}

TEST(GgufMetadata, RandomMetadataIsExact) {
  std::mt19937 random(20260701);
  for (int round = 0; round < 200; ++round) {
    FileBuilder file;
    const std::uint64_t keys = random() % 12;
    file.head(0, keys);
    for (std::uint64_t i = 0; i < keys; ++i) {
      const auto type = static_cast<std::uint32_t>(random() % 13);
      random_value(file.string("key" + std::to_string(i)).u32(type), random, type, 1);
    }
    SCOPED_TRACE(round);
    expect_same_bytes(file);
  }
}

// Warnings about metadata that does not fit together.

FileBuilder llama(std::uint64_t more_keys) {
  return FileBuilder().head(0, 1 + more_keys).key("general.architecture", MetaType::kString).string("llama");
}

TEST(GgufMetadata, WarnsWithoutAnArchitecture) {
  EXPECT_TRUE(has_finding(open(FileBuilder().head(0, 0)), "gguf-metadata", "general.architecture is missing"));
  EXPECT_TRUE(has_finding(open(FileBuilder().head(0, 1).key("general.architecture", MetaType::kU8).u8(1)),
                          "gguf-metadata", "general.architecture is missing or no string"));
  EXPECT_TRUE(open(llama(0)).findings.empty());
}

TEST(GgufMetadata, WarnsOfLayersAndHeads) {
  const auto with = [](std::string_view key, std::uint32_t number) {
    return open(llama(1).key(key, MetaType::kU32).u32(number));
  };
  EXPECT_TRUE(with("llama.block_count", 512).findings.empty());
  EXPECT_TRUE(has_finding(with("llama.block_count", 513), "gguf-metadata", "is 513; llama.cpp allows 1 to 512"));
  EXPECT_TRUE(has_finding(with("llama.attention.head_count", 0), "gguf-metadata", "head_count' is 0"));
  EXPECT_TRUE(with("other.attention.head_count", 0).findings.empty());
  EXPECT_TRUE(has_finding(open(llama(1).key("llama.block_count", MetaType::kString).string("x")), "gguf-metadata",
                          R"(should be a positive integer; it is "x" (string))"));
  EXPECT_TRUE(open(llama(1).key("llama.attention.head_count", MetaType::kArray).u32(id(MetaType::kU32)).u64(1).u32(0))
                  .findings.empty());
}

TEST(GgufMetadata, WarnsOfTokensThatDoNotFit) {
  FileBuilder file = llama(3);
  file.key("tokenizer.ggml.tokens", MetaType::kArray).u32(id(MetaType::kString)).u64(2).string("a").string("\xff\xfe");
  file.key("tokenizer.ggml.scores", MetaType::kArray).u32(id(MetaType::kF32)).u64(1).number(0.f);
  file.key("tokenizer.ggml.token_type", MetaType::kArray).u32(id(MetaType::kU8)).u64(2).u8(1).u8(1);
  const Model model = open(file);
  EXPECT_TRUE(has_finding(model, "gguf-metadata", "tokenizer.ggml.scores' has 1 elements for 2 tokens"));
  EXPECT_TRUE(has_finding(model, "gguf-metadata", "token_type' should be an array of i32; it is an array of u8"));
  EXPECT_TRUE(has_finding(model, "gguf-metadata", "1 of 2 tokens are not UTF-8, the first is number 1: '\\xff\\xfe'"));
  EXPECT_EQ(model.findings.size(), 3u);
}

}  // namespace
}  // namespace wconv::gguf::test
