// One test for each way to refuse a file: code, message, tensor and byte offset.
#include "proto.h"

namespace wconv::onnx::test {
namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;

// Where the tensor `w` of model_with({w}) begins: behind ir_version, and the tags and lengths of graph and initializer.
constexpr std::uint64_t kTensorAt = 4;

void expect_refused(const Proto& model, ErrorCode code, std::string_view text, std::string_view tensor = "") {
  const Refusal refused = refusal([&] { open(model); });
  EXPECT_EQ(refused.code, code) << refused.text;
  EXPECT_EQ(refused.tensor, tensor) << refused.text;
  EXPECT_NE(refused.text.find(text), std::string::npos) << refused.text;
  EXPECT_TRUE(refused.offset.has_value()) << refused.text;
  EXPECT_TRUE(refused.text.starts_with("m.onnx: ")) << refused.text;
}
void expect_corrupt(const Proto& tensor, std::string_view text) {
  expect_refused(model_with({tensor}), ErrorCode::kCorrupt, text, "w");
}

TEST(OnnxRefusals, Wire) {
  const auto corrupt = [](std::string_view bytes, std::string_view text, std::uint64_t offset) {
    const Refusal refused = refusal([&] { open(Proto().raw(bytes)); });
    EXPECT_EQ(refused.code, ErrorCode::kCorrupt) << refused.text;
    EXPECT_NE(refused.text.find(text), std::string::npos) << refused.text;
    EXPECT_EQ(refused.offset, offset) << refused.text;
  };
  using namespace std::string_view_literals;
  corrupt("\x08"sv, "ends inside a value", 1);
  corrupt("\x08\x0a\x88"sv, "ends inside a tag", 2);
  corrupt("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv, "a value is a number of more than 10 bytes", 1);
  corrupt("\x02\x00"sv, "no tag of a field", 0);
  corrupt("\xff\xff\xff\xff\xff\x01"sv, "no tag of a field", 0);
  corrupt("\x3a\x05xx"sv, "field 7 claims 5 bytes, 2 are left", 0);
  corrupt("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv, "claims 18446744073709551615 bytes", 0);
  corrupt("\x3b\x3c"sv, "field 7 has the wire type 3", 0);
  corrupt("\x38\x01"sv, "field 7 has the wire type 0, 2 is right", 0);
  corrupt("\x0a\x00"sv, "field 1 has the wire type 2, 0 is right", 0);
  corrupt("\x0d\x00\x00"sv, "field 1 claims 4 bytes, 2 are left", 0);
}

TEST(OnnxRefusals, Graph) {
  expect_refused(Proto().number(1, 10), ErrorCode::kCorrupt, "there is no graph");
  expect_refused(model_of(graph_of({})).message(7, graph_of({})), ErrorCode::kCorrupt, "a second graph");
  expect_refused(model_with({pair("")}), ErrorCode::kCorrupt, "an initializer without a name");
  expect_refused(model_with({pair("w"), pair("w")}), ErrorCode::kCorrupt, "two values of one graph have this name",
                 "w");
}

TEST(OnnxRefusals, EveryCutOfAFile) {
  const std::string whole = model_of(graph_of({pair("w"), tensor("v", kInt8, {3}).text(5, "abc")})).bytes();
  const std::size_t opset_at = whole.size() - 6;  // a file that ends here is whole, only without opset_import
  for (std::size_t size = 0; size < whole.size(); ++size) {
    if (size == opset_at) continue;
    const Refusal refused = refusal([&] { open(Proto().raw(std::string_view(whole).substr(0, size))); });
    EXPECT_EQ(refused.code, ErrorCode::kCorrupt) << size;
    EXPECT_TRUE(refused.offset.has_value()) << size;
  }
}

TEST(OnnxRefusals, Types) {
  expect_corrupt(tensor("w", 0, {1}).text(9, "abcd"), "it has no data_type");
  expect_refused(model_with({tensor("w", 99, {1}).text(9, "abcd")}), ErrorCode::kUnsupported, "data_type 99", "w");
  expect_corrupt(pair("w").number(2, kFloat), "data_type stands there twice");
  expect_corrupt(pair("w").text(9, std::string(8, 'x')), "raw_data stands there twice");
  expect_corrupt(pair("w").number(14, 2), "data_location is 2");
  expect_refused(model_with({pair("w").message(3, Proto().number(1, 0))}), ErrorCode::kUnsupported, "segment", "w");
}

TEST(OnnxRefusals, Dims) {
  expect_corrupt(tensor("w", kFloat, {~std::uint64_t{0}}), "dimension 0 is -1");
  expect_corrupt(tensor("w", kFloat, {2, kHuge}), "dimension 1 is -9223372036854775808");
  expect_corrupt(tensor("w", kFloat, {1ull << 32, 1ull << 32}).text(9, "abcd"), "does not fit 64 bits");
  expect_corrupt(tensor("w", kFloat, {1ull << 61}).text(9, "abcd"), "does not fit 62 bits");
  expect_corrupt(Proto().text(1, "\xff").raw(tensor("w", kFloat, {}).bytes()), "ends inside dims");
}

TEST(OnnxRefusals, Data) {
  expect_corrupt(tensor("w", kFloat, {2}), "it has no data; dims and data_type need 8 bytes");
  expect_corrupt(tensor("w", kFloat, {2}).text(9, "abcd"), "raw_data has 4 bytes; dims and data_type need 8");
  expect_corrupt(tensor("w", kFloat, {2}).text(9, std::string(12, 'x')), "raw_data has 12 bytes");
  expect_corrupt(tensor("w", kFloat, {2}).text(4, "abcd"), "float_data has 4 bytes; dims and data_type need 8");
  expect_corrupt(pair("w").text(4, std::string(8, 'x')), "data both in raw_data and float_data");
  expect_corrupt(tensor("w", kFloat, {2}).text(7, "ab"), "data_type 1 has its data in int64_data; float_data or");
  expect_corrupt(external("w", "w.bin").text(9, "abcdefgh"), "data both in an external file and raw_data");
  expect_corrupt(tensor("w", kFloat, {2}).number(14, 1), "external_data has no location");
}

TEST(OnnxRefusals, Lists) {
  expect_corrupt(tensor("w", kInt8, {3}).text(5, "ab"), "int32_data holds 2 numbers; dims and data_type need 3");
  expect_corrupt(tensor("w", kInt8, {1}).text(5, "abc"), "int32_data holds 3 numbers; dims and data_type need 1");
  expect_corrupt(tensor("w", kInt8, {1}).text(5, "\xff"), "int32_data ends inside a number");
  expect_corrupt(tensor("w", kInt8, {1}).number(5, 128), "int32_data holds 128; -128 to 127 fit");
  expect_corrupt(tensor("w", kInt8, {2}).message(5, Proto().varint(1).varint(300)), "int32_data holds 300");
  expect_corrupt(tensor("w", 9, {1}).number(5, 2), "int32_data holds 2; 0 to 1 fit");                    // BOOL
  expect_corrupt(tensor("w", 12, {1}).number(11, 1ull << 32), "uint64_data holds 4294967296; at most");  // U32
  expect_corrupt(tensor("w", kFloat, {2}).number(4, 1).number(4, 1), "float_data has the wire type 0, 5 or 2 is right");
  expect_corrupt(tensor("w", kFloat, {2}).text(4, "abcd").text(4, "abc"), "not a multiple of 4");
  expect_refused(model_with({tensor("w", kFloat, {1 << 25})
                                 .raw("\x25"
                                      "abcd")
                                 .raw("\x25"
                                      "abcd")}),
                 ErrorCode::kUnsupported, "one by one", "w");
}

TEST(OnnxRefusals, Strings) {
  expect_corrupt(tensor("w", kString, {1}).text(9, "text"), "strings lie in raw_data; string_data is right");
  expect_corrupt(tensor("w", kString, {2}).text(6, "text"), "string_data holds 1 strings; dims need 2");
  expect_corrupt(tensor("w", kString, {1}).text(5, "a"), "data_type 8 has its data in int32_data");
  expect_corrupt(tensor("w", kFloat, {2}).text(6, "a").text(6, "b"), "data_type 1 has its data in string_data");
}

Proto sparse(const Proto& values, const Proto& indices, std::initializer_list<std::uint64_t> dims) {
  Proto proto;
  proto.message(1, values).message(2, indices);
  for (const std::uint64_t dim : dims) proto.number(3, dim);
  return proto;
}
Proto indices(std::initializer_list<std::uint64_t> dims, std::size_t items) {
  return tensor("", 7, dims).text(9, std::string(8 * items, '\0'));
}
void expect_sparse(const Proto& proto, std::string_view text, std::string_view tensor = "w") {
  expect_refused(model_of(graph_of({}).message(15, proto)), ErrorCode::kCorrupt, text, tensor);
}

TEST(OnnxRefusals, Sparse) {
  EXPECT_EQ(open(model_of(graph_of({}).message(15, sparse(pair("w"), indices({2}, 2), {3})))).tensors.size(), 2u);
  expect_sparse(sparse(pair("w"), indices({2}, 2), {}), "values, indices and dims are needed", "");
  expect_sparse(Proto().message(1, pair("w")).message(1, pair("w")), "field 1 stands there twice", "");
  expect_sparse(sparse(pair(""), indices({2}, 2), {3}), "a sparse initializer without a name", "");
  expect_sparse(sparse(tensor("w", kFloat, {1, 2}).text(9, "abcdefgh"), indices({2}, 2), {3}), "have 2 dimensions");
  expect_sparse(sparse(pair("w"), pair("i"), {3}), "not I64");
  expect_sparse(sparse(pair("w"), indices({3}, 3), {3}), "have the shape [3]; [2] or [2,1] is right");
  expect_sparse(sparse(pair("w"), indices({2}, 2), {1}), "a sparse tensor of [1] has 2 values");
}

Proto constant(const Proto& attribute) {
  return model_of(graph_of({}).message(1, Proto().text(2, "w").text(4, "Constant").message(5, attribute)));
}

TEST(OnnxRefusals, Constants) {
  expect_refused(constant(Proto().text(1, "value").message(5, pair("a")).message(5, pair("b"))), ErrorCode::kCorrupt,
                 "a Constant of several tensors", "w");
  expect_refused(constant(Proto().text(1, "value_floats").number(8, 1)), ErrorCode::kCorrupt,
                 "its value_floats holds values of another kind", "w");
  expect_refused(constant(Proto().text(1, "value_int").number(3, 1).number(3, 2)), ErrorCode::kCorrupt,
                 "holds 2 numbers", "w");
  expect_refused(constant(Proto().text(1, "value").message(5, tensor("w", kFloat, {2}))), ErrorCode::kCorrupt,
                 "it has no data", "w");
}

TEST(OnnxRefusals, OffsetsAreThoseOfTheFault) {
  const Refusal refused = refusal([] { open(model_with({tensor("w", kFloat, {2}).text(9, "abcd")})); });
  EXPECT_EQ(refused.offset, kTensorAt + 2 + 2 + 2 + 3);  // the tensor's tag and length, dims, data_type, name
}

TEST(OnnxRefusals, Key) {
  const auto file = File::from_bytes("m.onnx", std::as_bytes(std::span(model_with({pair("w")}).bytes())));
  ReadOptions options;
  options.key = "model";
  EXPECT_EQ(refusal([&] { onnx_reader().open(file, options); }).code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace wconv::onnx::test
