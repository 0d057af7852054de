// One test for each rule of the format, with the message that a person gets.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "formats/safetensors/safetensors.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv {
namespace {

std::vector<std::byte> file_of(std::string_view header, std::string_view data = "") {
  std::string text;
  for (unsigned i = 0; i < 8; ++i) text += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xff);
  text += header;
  text += data;
  return test::bytes_of(std::span<const char>(text));
}

Model read(std::span<const std::byte> bytes) {
  return safetensors_reader().open(File::from_bytes("m.safetensors", bytes), {});
}
Model read(std::string_view header, std::string_view data = "") { return read(file_of(header, data)); }

void expect_refused(std::span<const std::byte> bytes, std::string_view words) {
  try {
    read(bytes);
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    EXPECT_TRUE(error.offset().has_value()) << error.what();
    EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what() << "\nnot: " << words;
  }
}
void expect_refused(std::string_view header, std::string_view data, std::string_view words) {
  expect_refused(file_of(header, data), words);
}

// {"a": {"dtype": DTYPE, "shape": SHAPE, "data_offsets": OFFSETS}}
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}
// Members of an object, each a U8 tensor at these offsets.
std::string tensors(std::initializer_list<std::tuple<std::string_view, unsigned, unsigned>> list) {
  std::string text;
  for (const auto& [name, begin, end] : list) {
    text += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", text.empty() ? "{" : ",",
                        name, end - begin, begin, end);
  }
  return text + "}";
}

TEST(Header, LengthIsCheckedBeforeAnythingIsRead) {
  expect_refused(std::vector<std::byte>(7), "7 bytes is too small for a safetensors file");
  expect_refused(std::vector<std::byte>(0), "0 bytes is too small");
  expect_refused(std::vector<std::byte>(8), "does not begin with '{'");
  expect_refused(std::vector<std::byte>(16, std::byte{0xff}),
                 "header length 18446744073709551615 is over the format's limit of 100000000 (at byte 0)");
  std::vector<std::byte> past = file_of("{}");
  past[0] = std::byte{3};
  expect_refused(past, "header length 3 is more than the 2 bytes that follow: truncated download? (at byte 0)");
  const std::uint32_t over = 100'000'001;
  std::vector<std::byte> bytes(over + 8, std::byte{' '});
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(i < 4 ? over >> (8 * i) : 0);
  expect_refused(bytes, "header length 100000001 is over the format's limit");
}

TEST(Header, BeginsWithABraceAndIsOneJsonObject) {
  EXPECT_TRUE(read("{}").tensors.empty());
  EXPECT_TRUE(read("{}      ").tensors.empty());
  expect_refused(" {}", "", "the header does not begin with '{' (at byte 8)");
  expect_refused("\xef\xbb\xbf{}", "", "does not begin with '{'");
  expect_refused("[]", "", "does not begin with '{'");
  expect_refused("{}x", "", "the header is not JSON");
  expect_refused("{}{}", "", "the header is not JSON");
  expect_refused("{", "", "the header is not JSON");
  expect_refused("{\"a\"}", "", "the header is not JSON");
  expect_refused(std::string_view("{}\0\0\0\0\0\0", 8), "",
                 "the header is not JSON: byte 0x00 stands where the end of the header should be (at byte 10)");
}

TEST(Header, IsUtf8) {
  EXPECT_EQ(read(tensors({{"wei\u00df \U0001f600", 0, 1}}), "x").tensors[0].info.name, "wei\u00df \U0001f600");
  EXPECT_EQ(read(tensors({{"\\u00df\\ud83d\\ude00", 0, 1}}), "x").tensors[0].info.name, "\u00df\U0001f600");
  expect_refused(tensors({{"\xff\xfe", 0, 1}}), "x", "the header is not JSON: ");
  expect_refused(tensors({{"\xc0\xaf", 0, 1}}), "x", "the header is not JSON: ");
  expect_refused(tensors({{"\\ud800", 0, 1}}), "x", "the header is not JSON: ");
  expect_refused("{\"__metadata__\":{\"k\":\"\xff\"}}", "", "the header is not JSON: ");
}

TEST(Header, KeysAreUnique) {
  expect_refused(tensors({{"a", 0, 1}, {"a", 1, 2}}), "xy",
                 "tensor 'a': the header has this name twice; the first is at byte 13 (at byte 65)");
  expect_refused(tensors({{"a", 0, 1}, {"a", 0, 1}}), "x", "tensor 'a': the header has this name twice");
  expect_refused(tensors({{"a", 0, 1}, {"\\u0061", 1, 2}}), "xy", "tensor 'a': the header has this name twice");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x",
                 "tensor 'a': duplicate field 'dtype'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", "x",
                 "duplicate field 'shape'");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "", "duplicate key '__metadata__'");
  expect_refused(R"({"__metadata__":{"k":"1","k":"1"}})", "", "duplicate __metadata__ key 'k'");
}

TEST(Header, MetadataIsAnObjectOfStrings) {
  EXPECT_TRUE(read(R"({"__metadata__":{}})").metadata.empty());
  EXPECT_TRUE(read(R"({"__metadata__":{}})").metadata.stated());
  EXPECT_TRUE(read(R"({"__metadata__":null})").metadata.empty());
  EXPECT_FALSE(read(R"({"__metadata__":null})").metadata.stated());
  const Model model = read(R"({"__metadata__":{"z":"1","a":"two"}})");
  ASSERT_EQ(model.metadata.size(), 2u);
  EXPECT_EQ(model.metadata.begin()->first, "z") << "in the order of the file";
  EXPECT_EQ(*model.metadata.find("a")->as_string(), "two");
  for (const auto& [value, what] : {std::pair{"1", "a number"},
                                    {"null", "null"},
                                    {"{}", "an object"},
                                    {"[]", "an array"},
                                    {"true", "a boolean"},
                                    {"-1", "a number"}}) {
    expect_refused(fmt::format(R"({{"__metadata__":{{"k":{}}}}})", value), "",
                   fmt::format("'__metadata__' key 'k' is {}", what));
  }
  expect_refused(R"({"__metadata__":[]})", "", "'__metadata__' is an array; only an object of strings is allowed");
  expect_refused(R"({"__metadata__":"x"})", "", "'__metadata__' is a string; only an object of strings is allowed");
}

TEST(Header, TypesOfMetadataFitIt) {
  expect_refused(R"({"__metadata__":{"n":"x","wconv.types":"{\"n\":\"u32\"}"}})", "",
                 "metadata 'n' does not fit its type in 'wconv.types'");
  expect_refused(R"({"__metadata__":{"wconv.types":"[]"}})", "",
                 "metadata 'wconv.types' is not a JSON object (at byte 24)");
}

TEST(Header, TensorsHaveTheirThreeFields) {
  expect_refused(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x", "tensor 'a': it has no field 'dtype'");
  expect_refused(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x", "tensor 'a': it has no field 'shape'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", "x", "tensor 'a': it has no field 'data_offsets'");
  expect_refused(R"({"a":[]})", "", "tensor 'a': its entry is an array, not an object");
  expect_refused(R"({"a":1})", "", "tensor 'a': its entry is a number, not an object");
  expect_refused(one("U8", "[1]", "[0]"), "x", "tensor 'a': it has 1 data_offsets, not 2");
  expect_refused(one("U8", "[1]", "[0,1,2]"), "x", "tensor 'a': it has 3 data_offsets, not 2");
  expect_refused(one("U8", "{}", "[0,1]"), "x", "tensor 'a': field 'shape' holds an object; only an array of integers");
  expect_refused(one("U8", "[[1]]", "[0,1]"), "x", "tensor 'a': field 'shape' holds an array");
  expect_refused(one("U8", "1", "[0,1]"), "x", "tensor 'a': field 'shape' holds a number");
  expect_refused(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x",
                 "tensor 'a': field 'dtype' holds a number; only a string");
}

TEST(Header, FieldsThatNobodyKnowsAreReadOver) {
  const Model model = read(
      R"({"a":{"x":{"dtype":[1,{"y":null}]},"dtype":"U8","x":1,"shape":[1],"z":[[],{}],"data_offsets":[0,1]}})", "x");
  EXPECT_EQ(model.tensors[0].info.shape, std::vector<std::uint64_t>{1});
}

TEST(Header, DtypesAreThoseOfTheFormatInUpperCase) {
  expect_refused(one("F128", "[1]", "[0,16]"), std::string(16, 'x'),
                 "tensor 'a': it has the dtype 'F128', which safetensors does not define");
  expect_refused(one("f32", "[1]", "[0,4]"), "xxxx", "the dtype 'f32'");
  expect_refused(one("Q4_K", "[256]", "[0,144]"), std::string(144, 'x'), "the dtype 'Q4_K'");
  expect_refused(one("", "[1]", "[0,1]"), "x", "the dtype ''");
}

TEST(Header, NumbersAreUnsigned64BitIntegers) {
  for (const std::string_view number : {"-1", "1.0", "1e2", "18446744073709551616", "true", "null", "\"1\"", "-0"}) {
    expect_refused(one("U8", fmt::format("[{}]", number), "[0,1]"), "x", "tensor 'a': field 'shape' holds ");
    expect_refused(one("U8", "[1]", fmt::format("[{},1]", number)), "x", "tensor 'a': field 'data_offsets' holds ");
  }
  expect_refused(one("U8", "[18446744073709551616]", "[0,1]"), "x",
                 "holds 18446744073709551616; only an array of integers from 0 to 2^64-1");
  EXPECT_EQ(read(one("U8", "[ 1 , 1\n]", "[0,1]"), "x").tensors[0].info.shape.size(), 2u);
}

TEST(Ranges, TileTheDataWithoutOverlapOrHole) {
  EXPECT_EQ(read(tensors({{"b", 1, 3}, {"a", 0, 1}}), "xyz").tensors[0].info.name, "a")
      << "keys may stand in any order";
  expect_refused(tensors({{"a", 0, 2}, {"b", 1, 3}}), "xyz",
                 "tensor 'b': data_offsets [1, 3] overlap the tensor before, which ends at 2");
  expect_refused(tensors({{"a", 0, 2}, {"b", 0, 2}}), "xy", "overlap the tensor before");
  expect_refused(tensors({{"a", 0, 1}, {"b", 2, 3}}), "xyz",
                 "tensor 'b': data_offsets [2, 3] leave a hole: the data before ends at 1");
  expect_refused(tensors({{"a", 1, 2}}), "xy", "tensor 'a': data_offsets [1, 2] leave a hole");
  expect_refused(one("U8", "[1]", "[1,0]"), "x", "tensor 'a': data_offsets [1, 0] end before they begin");
  expect_refused(one("U8", "[0]", "[18446744073709551615,0]"), "", "end before they begin");
}

TEST(Ranges, EndWhereTheFileEnds) {
  const std::string header = tensors({{"a", 0, 3}});
  expect_refused(header, "xy",
                 fmt::format("the tensors need 3 bytes of data, the file has 2: truncated download? (at byte {})",
                             8 + header.size() + 2));
  expect_refused(header, "xyz!",
                 fmt::format("the file has 4: trailing bytes belong to no tensor (at byte {})", 8 + header.size() + 3));
  expect_refused("{}", "x", "trailing bytes belong to no tensor");
  expect_refused(one("U8", "[2305843009213693952]", "[0,2305843009213693952]"), "x", "truncated download?");
}

TEST(Ranges, AreAsLargeAsShapeAndDtypeSay) {
  expect_refused(one("F32", "[3]", "[0,8]"), "12345678",
                 "tensor 'a': shape and dtype F32 need 12 bytes, but data_offsets [0, 8] span 8");
  expect_refused(one("F32", "[]", "[0,0]"), "", "need 4 bytes");
  expect_refused(one("F32", "[0]", "[0,4]"), "1234", "need 0 bytes");
  expect_refused(one("U8", "[4294967296,4294967296]", "[0,0]"), "", "tensor 'a': ");
  expect_refused(one("F32", "[4611686018427387904]", "[0,0]"), "", "tensor 'a': ");  // wraps to 0
  expect_refused(one("U8", "[4294967296,4294967296,0]", "[0,0]"), "",
                 "tensor 'a': ");  // the product before the 0 overflows
}

TEST(Ranges, SubByteElementsFillWholeBytes) {
  EXPECT_EQ(read(one("F4", "[2,3]", "[0,3]"), "xyz").tensors[0].data->size_bytes(), 3u);
  EXPECT_EQ(read(one("F6_E2M3", "[4]", "[0,3]"), "xyz").tensors[0].data->size_bytes(), 3u);
  expect_refused(one("F4", "[3]", "[0,2]"), "xy", "tensor 'a': ");
  expect_refused(one("F6_E3M2", "[3]", "[0,3]"), "xyz", "tensor 'a': ");
}

TEST(Ranges, EmptyTensorsAndScalarsAreKept) {
  const Model model = read(
      R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[2,0,3],"data_offsets":[4,4]},)"
      R"("f":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
      "1234x");
  ASSERT_EQ(model.tensors.size(), 4u);
  EXPECT_EQ(model.tensors[static_cast<std::size_t>(find_tensor(model, "e"))].info.shape,
            (std::vector<std::uint64_t>{2, 0, 3}));
  EXPECT_GE(find_tensor(model, ""), 0) << "the empty name is a name";
}

TEST(Reader, ReadsUnalignedData) {
  const std::string header =
      R"({"u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"f":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
  const Model model = read(header, std::string_view("\x01\x02\x03\x00\x00\xc0\x3f", 7));
  EXPECT_EQ(test::read_all(model.tensors[0]), test::bytes_of<unsigned char>({1, 2, 3}));
  EXPECT_EQ(test::read_all(model.tensors[1]), test::bytes_of({1.5f}));
  EXPECT_EQ(model.tensors[1].source_offset, 8 + header.size() + 3);
}

TEST(Reader, HasNoPartsToPick) {
  ReadOptions options;
  options.key = "model";
  try {
    safetensors_reader().open(File::from_bytes("m", file_of("{}")), options);
    FAIL() << "--key";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
  }
}

// The bytes of a small model; every tensor's name, dtype, shape and bytes as text.
std::vector<std::byte> small_file() {
  return test::safetensors_bytes({{"w", DType::kF32, {2, 2}, test::bytes_of({1.0f, 2.0f, 3.0f, 4.0f})},
                                  {"b", DType::kI16, {3}, test::bytes_of<short>({7, 8, 9})}},
                                 {{"format", "pt"}});
}

TEST(Property, EveryPrefixIsRefused) {
  const auto bytes = small_file();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(read(std::span(bytes).first(size)), Error) << size;
  }
  EXPECT_EQ(read(bytes).tensors.size(), 2u);
}

TEST(Property, AnyChangedByteOfTheHeaderIsRefusedOrGivesTensorsThatFit) {
  const auto bytes = small_file();
  std::size_t refused = 0, accepted = 0;
  for (std::size_t i = 0; i < bytes.size() - 22; ++i) {
    for (const unsigned flip : {0x01u, 0x02u, 0x10u, 0x20u, 0x80u, 0xffu}) {
      auto changed = bytes;
      changed[i] ^= static_cast<std::byte>(flip);
      try {
        const Model model = read(changed);
        std::uint64_t total = 0;
        for (const Tensor& tensor : model.tensors) {
          EXPECT_EQ(storage_bytes(tensor.info.dtype, tensor.info.shape), tensor.data->size_bytes());
          total += test::read_all(tensor).size();
        }
        EXPECT_EQ(total, 22u);
        ++accepted;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(accepted, 20u);  // other letters in names
}

void expect_within(std::chrono::seconds limit, const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  EXPECT_LT(std::chrono::steady_clock::now() - start, limit);
}

TEST(Header, JsonIsThatOfItsStandard) {
  const auto ignored = [](std::string_view value) {
    return fmt::format(R"({{"a":{{"x":{},"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})", value);
  };
  for (const std::string_view value :
       {"0", "-0", "1.5", "-12.25e+10", "1E-3", "1e999", "true", "false", "null", "\"\"", "[]", "{}",
        "[1,\"a\",{\"b\":[null]}]", "\"\\u00e9\\n\\/\\ud83d\\ude00\"", "\"\x7f\""}) {
    EXPECT_EQ(read(ignored(value), "x").tensors.size(), 1u) << value;
  }
  for (const std::string_view value : {"01",
                                       "+1",
                                       ".5",
                                       "1.",
                                       "1e",
                                       "-",
                                       "0x1",
                                       "nul",
                                       "True",
                                       "NaN",
                                       "Infinity",
                                       "'a'",
                                       "\"\\x\"",
                                       "\"\\u12g4\"",
                                       "\"\\udc00\"",
                                       "\"\\ud800\\u0041\"",
                                       "\"\n\"",
                                       "[1,]",
                                       "[,1]",
                                       "[1 2]",
                                       "{\"a\"}",
                                       "{\"a\":1,}",
                                       "{1:2}",
                                       "",
                                       "//",
                                       "\"\xff\"",
                                       "\"\xed\xa0\x80\""}) {
    expect_refused(ignored(value), "x", "the header is not JSON: ");
  }
}

TEST(Header, TokensMayLieAcrossWindows) {  // of 64 KiB
  for (std::size_t pad = 65'536 - 120; pad < 65'536; ++pad) {
    const std::string header = "{" + std::string(pad, ' ') +
                               R"("wei\u00df":{"dtype":"U8","x":[-1.5e3,null],"shape":[1],"data_offsets":[0,1]}})";
    const Model model = read(header, "x");
    ASSERT_EQ(model.tensors.at(0).info.name, "wei\u00df") << pad;
    ASSERT_EQ(model.tensors[0].info.shape, std::vector<std::uint64_t>{1}) << pad;
  }
}

TEST(Bombs, LongNamesAndMillionsOfMetadataKeysAreRefused) {
  expect_refused(tensors({{std::string(65'537, 'x'), 0, 1}}), "x", "a name has more than 65536 bytes");
  std::string keys = R"({"__metadata__":{)";
  for (int i = 0; i <= 65'536; ++i) keys += fmt::format(R"({}"{}":"")", i ? "," : "", i);
  expect_refused(keys + "}}", "", "'__metadata__' has more than 65536 keys");
}

TEST(Bombs, DeepNestingOverflowsNoStack) {
  const std::string deep(1'000'000, '[');
  expect_refused(R"({"a":{"x":)" + deep, "", "the header nests more than 128 levels");
  expect_refused(R"({"a":)" + deep, "", "tensor 'a': its entry is an array");
  std::string objects = R"({"a":{"x":)";
  for (int i = 0; i < 100'000; ++i) objects += R"({"x":)";
  expect_refused(objects, "", "the header nests more than 128 levels");
}

TEST(Bombs, MillionsOfDimensionsOrFieldsTakeNoMemoryOrTime) {
  std::string ones = "[1";
  for (int i = 0; i < 1'000'000; ++i) ones += ",1";
  expect_refused(one("U8", ones + "]", "[0,1]"), "x", "tensor 'a': field 'shape' holds more than 64 numbers");
  std::string fields = R"({"a":{)";
  for (int i = 0; i < 200'000; ++i) fields += fmt::format(R"("f{}":0,)", i);
  expect_within(std::chrono::seconds(20), [&] {  // quadratic: minutes
    EXPECT_EQ(read(fields + R"("dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x").tensors.size(), 1u);
  });
}

TEST(Large, AHundredThousandTensorsAreReadFast) {
  std::string header = "{";
  for (unsigned i = 0; i < 100'000; ++i) {
    header += fmt::format(
        R"({}"model.layers.{}.self_attn.q_proj.weight":{{"dtype":"BF16","shape":[1],"data_offsets":[{},{}]}})",
        i ? "," : "", i, 2 * i, 2 * i + 2);
  }
  const auto bytes = file_of(header + "}", std::string(200'000, 'x'));
  expect_within(std::chrono::seconds(10), [&] { EXPECT_EQ(read(bytes).tensors.size(), 100'000u); });
}

}  // namespace
}  // namespace wconv
