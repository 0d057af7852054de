// Metadata as text, for containers that hold only strings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "wconv/error.h"
#include "wconv/model.h"

namespace wconv {
namespace {

TEST(Metadata, TextFormIsItsOwnInverse) {
  Metadata metadata;
  metadata.append("name", MetaValue::string("a \"quoted\" name"));
  metadata.append("count", MetaValue::u32(7));
  metadata.append("big", MetaValue::u64(~std::uint64_t{0}));
  metadata.append("negative", MetaValue::i64(-5));
  metadata.append("eps", {MetaType::kF32, double{1e-6f}});
  metadata.append("nan", MetaValue::f64(std::numeric_limits<double>::quiet_NaN()));
  metadata.append("flag", MetaValue::boolean(true));
  metadata.append("bytes", MetaValue::string("\xff\xfe"));
  metadata.append("tokens", {MetaType::kArray, MetaArray{MetaType::kString, std::vector<std::string>{"a", "\xff"}}});
  metadata.append(
      "nested",
      {MetaType::kArray,
       MetaArray{MetaType::kArray, std::vector<MetaArray>{MetaArray{MetaType::kU8, std::vector<std::uint64_t>{1, 2}},
                                                          MetaArray{MetaType::kF64, std::vector<double>{0.5}}}}});
  const auto text = metadata_to_text(metadata);
  EXPECT_EQ(text[0].second, "a \"quoted\" name");
  const Metadata back = metadata_from_text(text);
  ASSERT_EQ(back.size(), metadata.size());
  EXPECT_EQ(metadata_to_text(back), text);
  for (const auto& [key, value] : metadata) EXPECT_EQ(back.find(key)->type, value.type) << key;
  EXPECT_EQ(*back.find("bytes")->as_string(), "\xff\xfe");
}

TEST(Metadata, ForeignTypesEntryIsRefused) {
  EXPECT_THROW(metadata_from_text({{"wconv.types", "[]"}}), Error);
  EXPECT_THROW(metadata_from_text({{"a", "x"}, {"wconv.types", R"({"a":"u32"})"}}), Error);
  EXPECT_THROW(metadata_from_text({{"a", "1"}, {"wconv.types", R"({"a":"u33"})"}}), Error);
}

std::string text_refusal(const std::string& type, const std::string& text) {
  try {
    metadata_from_text({{"k", text}, {"wconv.types", "{\"k\":" + type + "}"}});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Metadata, ValuesThatAreNotOfTheirTypeAreRefused) {
  EXPECT_EQ(text_refusal(R"("u8")", "300"),
            "metadata 'k' does not fit its type in 'wconv.types': '300' is not a u8 (0 to 255)");
  const std::vector<std::array<std::string, 3>> cases = {
      {R"("u8")", "-1", "'-1' is not a u8 (0 to 255)"},
      {R"("u32")", "1.9", "'1.9' is not a u32 (0 to 4294967295)"},
      {R"("u32")", "8589934592", "'8589934592' is not a u32"},
      {R"("u32")", "true", "'true' is not a u32"},
      {R"("u32")", "seven", "'seven' is not JSON"},
      {R"("u64")", "18446744073709551616", "is not a u64"},
      {R"("i8")", "128", "'128' is not an i8 (-128 to 127)"},
      {R"("i8")", "-129", "'-129' is not an i8"},
      {R"("i64")", "9223372036854775808", "is not an i64"},
      {R"("f32")", R"("hello")", "is not an f32"},
      {R"("f32")", "1e39", "'1e+39' is not an f32: out of its range"},
      {R"("f64")", "null", "'null' is not an f64"},
      {R"("bool")", "256", "'256' is not a bool (true or false)"},
      {R"("bool")", R"("true")", "is not a bool"},
      {R"("string")", "[256]", "'256' is not a u8"},
      {R"("string")", "7", "'7' is not a string"},
      {R"("[u8]")", "[1,300]", "'300' is not a u8"},
      {R"("[u8]")", "5", "'5' is not an array"},
      {R"(["[u8]"])", "[[1],[2]]", "is not an array of 1 arrays"},
      {R"("[u8]")", std::string(200'000, '['), "is not JSON"},
      {R"("u8")", std::string(200'000, '[') + std::string(200'000, ']'), "'array' is not a u8"},
      {R"("[array]")", "[]", "names the unknown type \"[array]\" for 'k'"},
      {R"("array")", "[]", "unknown type"},
      {R"(["xu8x"])", "[[]]", "unknown type"},
      {"7", "[]", "names the unknown type 7 for 'k'"}};
  for (const auto& [type, text, words] : cases) EXPECT_THAT(text_refusal(type, text), testing::HasSubstr(words));
}

TEST(Metadata, TheLimitsOfEachTypeAreRead) {
  const std::vector<std::pair<std::string, std::string>> values = {
      {"u8", "255"},      {"i8", "-128"},      {"u16", "65535"},
      {"i16", "32767"},   {"bool", "255"},     {"u64", "18446744073709551615"},
      {"f32", "1"},       {"f32", "3e38"},     {"i64", "-9223372036854775808"},
      {"f32", "\"nan\""}, {"f64", "\"-nan\""}, {"i32", "2147483647"},
      {"f64", "\"inf\""}, {"f32", "\"-inf\""}, {"u32", "4294967295"}};
  for (const auto& [type, text] : values) {
    const Metadata metadata = metadata_from_text({{"k", text}, {"wconv.types", "{\"k\":\"" + type + "\"}"}});
    const std::string back = metadata_json(metadata.begin()->second);
    EXPECT_EQ(back, text == "1" ? "1.0" : text == "3e38" ? "3e+38" : text) << type;
  }
}

}  // namespace
}  // namespace wconv
