// Rewriting: what changes, what stays byte for byte, and what is refused. The layouts are put together here; the engine
// has tests of its own.
#include <algorithm>

#include "formats/onnx/graph.h"
#include "proto.h"
#include "wconv/pass.h"

namespace wconv::onnx::test {
namespace {

const WriteOptions kOut{"out.onnx", false, 0};

std::vector<std::string> problems(const Model& model, const WriteOptions& options = kOut) {
  return onnx_writer().check(model, options);
}

std::string bytes_of_file(const Model& model, const OutputFile& file) {
  std::string out(file.size, '\0');
  for (const Piece& piece : file.pieces) {
    std::vector<std::byte> bytes;
    if (const auto* literal = std::get_if<LiteralPiece>(&piece.content)) bytes = literal->bytes;
    if (const auto* tensor = std::get_if<TensorPiece>(&piece.content))
      bytes = wconv::test::read_all(model.tensors.at(tensor->tensor));
    if (const auto* range = std::get_if<FilePiece>(&piece.content)) {
      bytes.resize(range->range.size);
      range->range.file->read(range->range.offset, bytes);
    }
    std::copy_n(reinterpret_cast<const char*>(bytes.data()), bytes.size(),
                out.begin() + static_cast<std::ptrdiff_t>(piece.offset));
  }
  return out;
}

// The one file of a model without external data.
std::string written(const Model& model) {
  EXPECT_EQ(problems(model), std::vector<std::string>());
  const Layout layout = onnx_writer().plan(model, kOut);
  EXPECT_EQ(layout.files.size(), 1u);
  EXPECT_EQ(layout.files.back().name, "out.onnx");
  return bytes_of_file(model, layout.files.back());
}

Model cast(Model model, DType dtype) {
  CastRules rules;
  rules.dtype = dtype;
  return cast_tensors(std::move(model), rules);
}

// Two floats: 1, -2.
Proto weight(std::string_view name) {
  return tensor(name, kFloat, {2}).text(9, std::string_view("\0\0\x80\x3f\0\0\0\xc0", 8));
}
constexpr std::string_view kHalves("\0\x3c\0\xc0", 4);  // the same in F16

Proto node(std::string_view op, std::string_view input, std::string_view output) {
  return Proto().text(1, input).text(2, output).text(4, op);
}
// What the writer adds to give `name` from what is stored.
Proto cast_node(const std::string& name, std::uint64_t to) {
  const Proto attribute = Proto().text(1, "to").number(3, to).number(20, 2);
  return Proto()
      .text(1, name + "__wconv")
      .text(2, name)
      .text(3, name + "/cast__wconv")
      .text(4, "Cast")
      .message(5, attribute);
}
Proto stored(std::string_view name) {
  return Proto().number(1, 2).number(2, 10).text(8, std::string(name) + "__wconv").text(9, kHalves);
}

TEST(OnnxWriter, WithoutChangesTheFileIsTheSame) {
  for (const char* name : {"types.onnx", "lists.onnx", "places.onnx"}) {
    const std::string path = std::string(WCONV_TEST_DATA "/formats/onnx/golden/") + name;
    Model model = open_model(path, {});
    model.refused.clear();
    const Layout layout = onnx_writer().plan(model, kOut);
    if (layout.files.size() == 1) {
      EXPECT_EQ(bytes_of_file(model, layout.files[0]), wconv::test::read_file(path)) << name;
    }
    EXPECT_EQ(layout.files.size(), std::string_view(name) == "types.onnx" ? 2u : 1u);
  }
}

TEST(OnnxWriter, AnInitializerInAnotherTypeIsFollowedByACast) {
  const Proto rest = Proto().message(1, node("Identity", "w", "y")).text(2, "g").text(77, "unknown");
  const auto model = [&](const Proto& graph) { return Proto(model_of(graph)).text(99, "unknown too"); };
  const Proto source = model(Proto().raw(rest.bytes()).message(5, weight("w")).message(11, Proto().text(1, "x")));
  const Proto expected = model(Proto()
                                   .message(1, cast_node("w", kFloat))
                                   .raw(rest.bytes())
                                   .message(5, stored("w"))
                                   .message(11, Proto().text(1, "x")));
  EXPECT_EQ(written(cast(open(source), DType::kF16)), expected.bytes());
}

TEST(OnnxWriter, LengthsOfMoreThanOneByte) {
  const auto model = [](const Proto& first, const Proto& tensor) {
    return model_of(Proto().raw(first.bytes()).text(2, std::string(100, 'g')).message(5, tensor));
  };
  const Proto source = model(Proto(), weight("w"));
  ASSERT_LT(static_cast<unsigned char>(source.bytes()[3]), 0x80) << "a length of one byte, which is to become two";
  const Proto expected = model(Proto().message(1, cast_node("w", kFloat)), stored("w"));
  EXPECT_EQ(written(cast(open(source), DType::kF16)), expected.bytes());
}

Proto constant(const std::string& output, const Proto& value) {
  return Proto()
      .text(2, output)
      .text(4, "Constant")
      .message(5, Proto().text(1, "value").message(5, value))
      .text(3, "n");
}

TEST(OnnxWriter, AConstantInAnotherTypeIsFollowedByACast) {
  const Proto value = Proto().number(1, 2).number(2, kFloat).text(9, std::string_view("\0\0\x80\x3f\0\0\0\xc0", 8));
  const Proto half = Proto().number(1, 2).number(2, 10).text(9, kHalves);
  const Proto use = node("Identity", "c", "y");
  const Proto source = model_of(Proto().message(1, constant("c", value)).message(1, use));
  const Proto expected =
      model_of(Proto().message(1, constant("c__wconv", half)).message(1, cast_node("c", kFloat)).message(1, use));
  EXPECT_EQ(written(cast(open(source), DType::kF16)), expected.bytes());
}

TEST(OnnxWriter, SubGraphsHaveTheirOwnCasts) {
  const auto model = [](const Proto& first, const Proto& tensor) {
    const Proto branch = Proto().raw(first.bytes()).message(5, tensor).text(2, "then");
    const Proto choose =
        Proto().text(1, "x").text(4, "If").message(5, Proto().text(1, "then_branch").message(6, branch));
    return model_of(Proto().message(1, choose).text(2, "g"));
  };
  EXPECT_EQ(written(cast(open(model(Proto(), weight("w"))), DType::kF16)),
            model(Proto().message(1, cast_node("w", kFloat)), stored("w")).bytes());
}

// Before IR version 4 an initializer is an input too.
TEST(OnnxWriter, AnInputOfTheSameNameIsThatWhichIsStored) {
  const auto input = [](std::string_view name, std::uint64_t type) {
    return Proto().text(1, name).message(2, Proto().message(1, Proto().number(1, type).text(2, "")));
  };
  const Proto source =
      model_of(Proto().message(5, weight("w")).message(11, input("x", kFloat)).message(11, input("w", kFloat)));
  const Proto expected = model_of(Proto()
                                      .message(1, cast_node("w", kFloat))
                                      .message(5, stored("w"))
                                      .message(11, input("x", kFloat))
                                      .message(11, input("w__wconv", 10)));
  EXPECT_EQ(written(cast(open(source), DType::kF16)), expected.bytes());
}

TEST(OnnxWriter, WeightsKeepTheirNamesFromOneRewritingToTheNext) {
  const std::string half = written(cast(open(model_with({weight("w")})), DType::kF16));
  const Model model = open(Proto().raw(half));
  ASSERT_EQ(model.tensors.size(), 1u);
  EXPECT_EQ(model.tensors[0].info.name, "w");
  EXPECT_EQ(model.tensors[0].info.dtype, DType::kF16);
  const Proto graph = graph_of({});
  const Proto expected = model_of(Proto()
                                      .message(1, cast_node("w", kFloat))
                                      .message(5, Proto()
                                                      .number(1, 2)
                                                      .number(2, kFloat)
                                                      .text(8, "w__wconv")
                                                      .text(9, std::string_view("\0\0\x80\x3f\0\0\0\xc0", 8)))
                                      .text(2, "g"));
  EXPECT_EQ(written(cast(model, DType::kF32)), expected.bytes());
}

TEST(OnnxWriter, SingleNumbersStay) {
  const Proto source =
      model_with({tensor("epsilon", kFloat, {}).text(9, "abcd"), tensor("one", kFloat, {1}).text(9, "abcd")});
  EXPECT_EQ(written(cast(open(source), DType::kF16)), source.bytes());
}

TEST(OnnxWriter, ScalesOfResizeStay) {
  const Proto resize = Proto().text(1, "x").text(1, "").text(1, "w").text(2, "y").text(4, "Resize");
  const Proto source = model_of(graph_of({weight("w")}).message(1, resize));
  EXPECT_EQ(written(cast(open(source), DType::kF16)), source.bytes());
}

TEST(OnnxWriter, TypedDataBecomesRaw) {
  const Proto source = model_with({tensor("w", kInt8, {2}).text(5, "\1\2").text(12, "doc")});
  Model model = open(source);
  model = replace_weights(std::move(model),
                          wconv::test::make_model({{"w", DType::kI8, {2}, {std::byte{3}, std::byte{4}}}}));
  EXPECT_EQ(written(model), model_with({tensor("w", kInt8, {2}).text(12, "doc").text(9, "\3\4")}).bytes());
}

TEST(OnnxWriter, ExternalDataLiesInOneFileAtPages) {
  const wconv::test::TempDir dir;
  wconv::test::write_file(dir / "a.bin", std::string(8, 'a'));
  wconv::test::write_file(dir / "b.bin", "...." + std::string(8, 'b'));
  const Proto b = external("b", "b.bin").message(13, entry("offset", "4"));
  wconv::test::write_file(dir / "m.onnx", model_with({external("a", "a.bin"), pair("inside"), b}).bytes());
  const Model model = open_model(dir / "m.onnx", {});
  ASSERT_EQ(problems(model), std::vector<std::string>());
  const Layout layout = onnx_writer().plan(model, kOut);
  ASSERT_EQ(layout.files.size(), 2u);
  EXPECT_EQ(layout.files[0].name, "out.onnx.data");
  EXPECT_EQ(bytes_of_file(model, layout.files[0]), std::string(8, 'a') + std::string(4088, '\0') + std::string(8, 'b'));
  const auto moved = [](std::string_view name, std::string_view offset) {
    return tensor(name, kFloat, {2})
        .message(13, entry("location", "out.onnx.data"))
        .message(13, entry("offset", offset))
        .message(13, entry("length", "8"))
        .number(14, 1);
  };
  EXPECT_EQ(bytes_of_file(model, layout.files[1]),
            model_with({moved("a", "0"), pair("inside"), moved("b", "4096")}).bytes());
}

// Bytes that are all zero, as many as are asked for.
class Zeros final : public TensorData {
 public:
  explicit Zeros(std::uint64_t size) : size_(size) {}
  std::uint64_t size_bytes() const override { return size_; }
  void read(std::uint64_t, std::span<std::byte> out) const override { std::fill(out.begin(), out.end(), std::byte{0}); }

 private:
  std::uint64_t size_;
};

// 1.5 GiB of F16 in a file that is not there: only the plan is looked at.
TEST(OnnxWriter, AModelOfMoreThanTwoGigabytesGetsAnExternalFile) {
  Model model = open(model_with({tensor("w", kFloat, {0}), pair("small")}));
  auto graph = std::make_shared<Graph>(dynamic_cast<const Graph&>(*model.graph));
  const std::vector<std::uint64_t> shape = {3, 1 << 28};
  graph->weights[0].shape = model.tensors[0].info.shape = shape;
  model.graph = graph;
  model.tensors[0].data = std::make_shared<Zeros>(std::uint64_t{3} << 30);
  ASSERT_EQ(problems(model), std::vector<std::string>());
  const Layout layout = onnx_writer().plan(model, kOut);
  ASSERT_EQ(layout.files.size(), 2u);
  EXPECT_EQ(layout.files[0].size, std::uint64_t{3} << 30);
  EXPECT_LT(layout.files[1].size, 1000u);
  model.tensors[0].data = std::make_shared<Zeros>(std::uint64_t{1} << 30);
  EXPECT_EQ(onnx_writer().plan(model, kOut).files.size(), 1u);
}

void expect_problem(const Model& model, std::string_view text, const WriteOptions& options = kOut) {
  const auto all = problems(model, options);
  EXPECT_TRUE(
      std::any_of(all.begin(), all.end(), [&](const std::string& p) { return p.find(text) != std::string::npos; }))
      << text << (all.empty() ? ": no problem" : ": " + all[0]);
}

TEST(OnnxWriterRefusals, NoGraph) {
  expect_problem(wconv::test::make_model({{"w", DType::kF32, {1}, std::vector<std::byte>(4)}}), "test has none");
}

TEST(OnnxWriterRefusals, TensorsThatAreNotTheGraphs) {
  const Model model = open(model_with({weight("w"), weight("v")}));
  expect_problem(select_tensors(model, {}, {"v"}), "the graph needs the tensor 'v', which is left out");
  RenameRules rules;
  rules.replacements.emplace_back("^w$", "u");
  expect_problem(rename_tensors(model, rules), "tensor 'w' cannot be renamed");
  Model more = model;
  more.tensors.push_back(more.tensors[0]);
  more.tensors.back().info.name = "other";
  expect_problem(more, "1 tensors are none of the graph's");
  Model other = model;
  other.tensors[0].info.shape = {1, 2};
  expect_problem(other, "tensor 'w' has the shape [1,2]; the graph has [2]");
}

TEST(OnnxWriterRefusals, Types) {
  const auto old = [](std::uint64_t opset, const Proto& graph) {
    return Proto().number(1, 4).message(7, graph).message(8, Proto().number(2, opset));
  };
  const Proto graph = graph_of({weight("w")});
  expect_problem(cast(open(old(5, graph)), DType::kF16), "needs opset 6, the model has 5");
  EXPECT_EQ(problems(cast(open(old(6, graph)), DType::kF16)), std::vector<std::string>());
  expect_problem(cast(open(old(12, graph)), DType::kBF16), "needs opset 13, the model has 12");
  const Proto taken = graph_of({weight("w")}).message(1, node("Identity", "w", "w__wconv"));
  expect_problem(cast(open(model_of(taken)), DType::kF16), "the name 'w__wconv' is taken");
  CastRules rules;
  rules.tensor_dtype.emplace_back("fill/value", DType::kF16);
  const Proto fill =
      Proto().text(3, "fill").text(4, "ConstantOfShape").message(5, Proto().text(1, "value").message(5, weight("")));
  expect_problem(cast_tensors(open(model_of(Proto().message(1, fill))), rules), "no Cast can follow it");
}

TEST(OnnxWriterRefusals, Options) {
  Model model = open(model_with({weight("w")}));
  expect_problem(model, "is written as a file", {"", true, 0});
  expect_problem(model, "have no shards", {"out.onnx", false, 1000});
  model.metadata.set("key", MetaValue::string("value"));
  expect_problem(model, "--set");
}

}  // namespace
}  // namespace wconv::onnx::test
