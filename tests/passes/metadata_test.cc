#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

using Sets = std::vector<std::string>;

Model sample() {
  Model model = test::make_model({});
  model.architecture = "llama";
  model.metadata.set("general.architecture", MetaValue::string("llama"));
  model.metadata.set("n", MetaValue::u32(3));
  model.metadata.set("scale", {MetaType::kF32, 1.5});
  model.metadata.set("flag", MetaValue::boolean(false));
  model.metadata.set("list", {MetaType::kArray, MetaArray{MetaType::kI32, std::vector<std::int64_t>{1, -2}}});
  model.metadata.set("odd:u8", MetaValue::string("x"));
  return model;
}

Model edited(const Sets& set) { return edit_metadata(sample(), {set, {}, {}}); }

MetaValue value_of(const std::string& set, std::string_view key) {
  const Model model = edited({set});
  const MetaValue* value = model.metadata.find(key);
  if (value == nullptr) throw std::runtime_error("no key " + std::string(key));
  return *value;
}

std::string refusal(const MetadataEdits& edits) {
  try {
    edit_metadata(sample(), edits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "nothing was refused";
}
std::string set_refusal(const std::string& set) { return refusal({{set}, {}, {}}); }

TEST(EditMetadata, AKeyKeepsItsType) {
  EXPECT_EQ(value_of("n=7", "n").type, MetaType::kU32);
  EXPECT_EQ(std::get<std::uint64_t>(value_of("n=7", "n").value), 7u);
  EXPECT_EQ(std::get<double>(value_of("scale=0.1", "scale").value), double{0.1f});
  EXPECT_EQ(std::get<std::uint64_t>(value_of("flag=true", "flag").value), 1u);
  EXPECT_EQ(*value_of("general.architecture=qwen2", "general.architecture").as_string(), "qwen2");
  const MetaValue list = value_of("list=[5, -6, 7]", "list");
  EXPECT_EQ(std::get<MetaArray>(list.value).element, MetaType::kI32);
  EXPECT_EQ(metadata_json(list), "[5,-6,7]");
}

TEST(EditMetadata, EditsInPlaceAndAppendsWhatIsNew) {
  const Model model = edited({"new=a", "n=7"});
  std::string keys;
  for (const auto& [key, value] : model.metadata) keys += key + " ";
  EXPECT_EQ(keys, "general.architecture n scale flag list odd:u8 new ");
}

TEST(EditMetadata, ANewKeyIsAString) {
  EXPECT_EQ(*value_of("name=My model=1", "name").as_string(), "My model=1");
  EXPECT_EQ(*value_of("empty=", "empty").as_string(), "");
  EXPECT_TRUE(edited({"name=My model"}).findings.empty());
}

TEST(EditMetadata, ANewKeyThatLooksLikeANumberIsReported) {
  for (const char* value : {"7", "-1.5e3", "true", "[1]"}) {
    const Model model = edited({std::string("new=") + value});
    EXPECT_EQ(*model.metadata.find("new")->as_string(), value);
    ASSERT_EQ(model.findings.size(), 1u) << value;
    EXPECT_EQ(model.findings[0].code, "set-string");
  }
  EXPECT_EQ(edited({"new=7"}).findings[0].message,
            "the new metadata key 'new' is a string; --set new:TYPE=7 gives it another type");
  EXPECT_TRUE(edited({"new:u32=7", "other:string=7"}).findings.empty());
}

TEST(EditMetadata, StatedTypes) {
  for (const char* type : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool", "string"}) {
    const MetaValue value = value_of("k:" + std::string(type) + "=1", "k");
    EXPECT_EQ(meta_type_name(value.type), type);
    EXPECT_EQ(metadata_json(value), std::string(type) == "bool"     ? "true"
                                    : std::string(type) == "string" ? "\"1\""
                                    : type[0] == 'f'                ? "1.0"
                                                                    : "1");
  }
  EXPECT_EQ(value_of("n:i64=-5", "n").type, MetaType::kI64);  // wins over the type that the key has
  EXPECT_EQ(value_of("k:U32=7", "k").type, MetaType::kU32);   // any case
  EXPECT_EQ(*value_of("a:b:string=c", "a:b").as_string(), "c");
  EXPECT_EQ(*value_of("odd:u8=y", "odd:u8").as_string(), "y");  // a key that is there under its whole name
}

TEST(EditMetadata, Limits) {
  EXPECT_EQ(metadata_json(value_of("k:u64=18446744073709551615", "k")), "18446744073709551615");
  EXPECT_EQ(metadata_json(value_of("k:i64=-9223372036854775808", "k")), "-9223372036854775808");
  EXPECT_EQ(metadata_json(value_of("k:i8=-128", "k")), "-128");
  EXPECT_TRUE(std::isinf(std::get<double>(value_of("k:f32=inf", "k").value)));
  EXPECT_EQ(set_refusal("k:u8=256"), "the value '256' of key 'k' is not a u8 (0 to 255)");
  EXPECT_EQ(set_refusal("k:u8=-1"), "the value '-1' of key 'k' is not a u8 (0 to 255)");
  EXPECT_EQ(set_refusal("k:i8=128"), "the value '128' of key 'k' is not an i8 (-128 to 127)");
  EXPECT_EQ(set_refusal("k:i8=-129"), "the value '-129' of key 'k' is not an i8 (-128 to 127)");
  EXPECT_NE(set_refusal("k:u64=18446744073709551616").find("is not a u64"), std::string::npos);
  EXPECT_NE(set_refusal("k:i64=-9223372036854775809").find("is not an i64"), std::string::npos);
  EXPECT_EQ(set_refusal("k:f32=1e39"), "the value '1e39' of key 'k' is not an f32: out of its range");
}

TEST(EditMetadata, ValuesOfAnotherType) {
  EXPECT_EQ(set_refusal("n=seven"), "the value 'seven' of key 'n' is not a u32 (0 to 4294967295)");
  EXPECT_EQ(set_refusal("n="), "the value '' of key 'n' is not a u32 (0 to 4294967295)");
  EXPECT_EQ(set_refusal("n=7 "), "the value '7 ' of key 'n' is not a u32 (0 to 4294967295)");
  EXPECT_EQ(set_refusal("flag=yes"), "the value 'yes' of key 'flag' is not a bool (true or false)");
  EXPECT_EQ(set_refusal("scale=1,5"), "the value '1,5' of key 'scale' is not an f32");
  EXPECT_EQ(set_refusal("list=5"), "the value '5' of key 'list' is not a JSON array");
  EXPECT_EQ(set_refusal("list=[1"), "the value '[1' of key 'list' is not a JSON array");
  EXPECT_EQ(set_refusal("list=[1, 2.5]"), "the value '2.5' of key 'list' is not an i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(set_refusal("list=[[1]]"), "the value '[1]' of key 'list' is not a single value");
}

TEST(EditMetadata, Arrays) {
  EXPECT_EQ(metadata_json(value_of(R"(k:array:string=["a", "b=c"])", "k")), R"(["a","b=c"])");
  EXPECT_EQ(metadata_json(value_of("k:array:u64=[18446744073709551615]", "k")), "[18446744073709551615]");
  EXPECT_EQ(metadata_json(value_of("k:array:bool=[true, false, 1]", "k")), "[true,false,true]");
  EXPECT_EQ(metadata_json(value_of("k:array:f64=[0.1, 2]", "k")), "[0.1,2.0]");
  EXPECT_EQ(metadata_json(value_of("k:array:u8=[]", "k")), "[]");
  EXPECT_EQ(set_refusal("k:array:string=[1]"), "the value '1' of key 'k' is not a string in quotes");
  EXPECT_EQ(set_refusal("k:array=[1]"), "key 'k': write the type of an array as array:u32");
  EXPECT_EQ(set_refusal("k:array:array=[[1]]"), "key 'k': arrays within arrays cannot be set");
}

TEST(EditMetadata, WrongOptions) {
  EXPECT_EQ(set_refusal("n"), "--set 'n': expected KEY=VALUE");
  EXPECT_EQ(set_refusal("=7"), "--set '=7': expected KEY=VALUE");
  EXPECT_EQ(set_refusal(":u32=7"), "--set ':u32=7': the key is empty");
  EXPECT_EQ(refusal({{}, {}, {"general.architectur"}}),
            "--unset: there is no metadata key 'general.architectur'; the nearest name is 'general.architecture'");
}

TEST(EditMetadata, WhatFollowsAColonIsAType) {
  for (const char* word : {"int32", "uint32", "str", "", "b.c", "//x"}) {
    EXPECT_EQ(
        set_refusal(fmt::format("k:{}=7", word)),
        fmt::format("--set 'k:{}=7': '{}' is no type; types are u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string "
                    "and array:TYPE, and a new key that has a ':' is written KEY:string=VALUE",
                    word, word));
  }
  EXPECT_NE(set_refusal("k:array:int=[7]").find("'int' is no type"), std::string::npos);
}

TEST(EditMetadata, OneKeyInTwoOptionsIsRefused) {
  EXPECT_EQ(refusal({{"n=text"}, {}, {"n"}}),
            "--unset and --set both name the metadata key 'n'; give one of them (--set KEY:TYPE=VALUE changes a type)");
  EXPECT_NE(refusal({{"n:string=text"}, {}, {"n"}}).find("--unset and --set both name"), std::string::npos);
  EXPECT_EQ(refusal({{"k=text"}, {"k=file"}, {}}),
            "--set and --set-file both name the metadata key 'k'; give one of them");
  EXPECT_EQ(*value_of("n:string=text", "n").as_string(), "text");
  EXPECT_EQ(edit_metadata(sample(), {{}, {}, {"n"}}).metadata.find("n"), nullptr);
  EXPECT_EQ(*edited({"k=1", "k=2"}).metadata.find("k")->as_string(), "2");
}

TEST(EditMetadata, KeysOfTheSpecificationHaveTheirTypes) {
  for (const char* key : {"general.alignment", "general.file_type", "general.quantization_version",
                          "general.base_model.count", "tokenizer.ggml.eos_token_id"}) {
    const Model model = edited({std::string(key) + "=64"});
    EXPECT_EQ(model.metadata.find(key)->type, MetaType::kU32) << key;
    EXPECT_TRUE(model.findings.empty()) << key;
  }
  EXPECT_EQ(metadata_json(value_of(R"(general.languages=["en"])", "general.languages")), R"(["en"])");
  EXPECT_EQ(value_of("general.alignment:u64=64", "general.alignment").type, MetaType::kU64);  // as it was said
  EXPECT_EQ(set_refusal("general.file_type=F16"),
            "the value 'F16' of key 'general.file_type' is not a u32 (0 to 4294967295)");
  EXPECT_EQ(set_refusal("general.tags=chat"), "the value 'chat' of key 'general.tags' is not a JSON array");
}

TEST(EditMetadata, TextFromAFile) {
  const test::TempDir dir;
  const std::string template_text("{% for m in messages %}\n\xc3\xa9\0", 27);
  test::write_file(dir / "chat.jinja", template_text);
  const Model model = edit_metadata(sample(), {{}, {"tokenizer.chat_template=" + (dir / "chat.jinja")}, {}});
  EXPECT_EQ(*model.metadata.find("tokenizer.chat_template")->as_string(), template_text);
  EXPECT_EQ(refusal({{}, {"n=" + (dir / "chat.jinja")}, {}}), "--set-file: key 'n' is u32 and not a string");
  try {
    edit_metadata(sample(), {{}, {"k=" + (dir / "missing")}, {}});
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissing);
  }
}

TEST(EditMetadata, TheArchitectureFollowsItsKey) {
  EXPECT_EQ(edited({"general.architecture=qwen2"}).architecture, "qwen2");
  EXPECT_EQ(edit_metadata(sample(), {{}, {}, {"general.architecture"}}).architecture, "");
  EXPECT_EQ(edited({"n=1"}).architecture, "llama");
}

}  // namespace
}  // namespace wconv
