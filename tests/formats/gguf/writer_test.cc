// Layouts of whole and split files, and what cannot be written.
#include <gtest/gtest.h>

#include <random>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

using wconv::test::make_model;
using wconv::test::read_all;
using wconv::test::TempDir;
using wconv::test::TensorSpec;

TensorSpec numbered(std::string name, std::vector<std::uint64_t> shape, DType dtype = DType::kF32) {
  std::vector<std::byte> bytes(storage_bytes(dtype, shape));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + name.size());
  return {std::move(name), dtype, std::move(shape), std::move(bytes)};
}

void expect_same_tensors(const Model& a, const Model& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].info.name, b.tensors[i].info.name);
    EXPECT_EQ(a.tensors[i].info.dtype, b.tensors[i].info.dtype) << a.tensors[i].info.name;
    EXPECT_EQ(a.tensors[i].info.shape, b.tensors[i].info.shape) << a.tensors[i].info.name;
    EXPECT_EQ(read_all(a.tensors[i]), read_all(b.tensors[i])) << a.tensors[i].info.name;
  }
}

TEST(GgufWriter, EveryTypeAndShapeComesBack) {
  std::vector<TensorSpec> specs = {numbered("scalar", {}), numbered("empty", {0, 3}), numbered("four", {2, 1, 3, 2})};
  for (const DTypeInfo& type : all_dtypes())
    if (type.ggml >= 0) specs.push_back(numbered(std::string(type.name), {3, 2u * type.block_elements}, type.dtype));
  const Model model = make_model(specs);
  expect_same_tensors(open(written(model)), model);
}

TEST(GgufWriter, RandomModelsComeBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<TensorSpec> specs;
    for (std::size_t i = random() % 8; i > 0; --i) {
      std::vector<std::uint64_t> shape(random() % 5);
      for (auto& dim : shape) dim = random() % 5;
      specs.push_back(numbered("t" + std::to_string(i), shape, random() % 2 ? DType::kF16 : DType::kF64));
    }
    Model model = make_model(specs);
    model.metadata.set("general.alignment", MetaValue::u32(1u << (random() % 13)));
    SCOPED_TRACE(round);
    expect_same_tensors(open(written(model)), model);
  }
}

TEST(GgufWriter, TensorsAndFileEndAreAligned) {
  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    Model model = make_model({numbered("a", {3}), numbered("b", {5}), numbered("c", {1})});
    model.metadata.set("general.alignment", MetaValue::u32(alignment));
    const OutputFile file = gguf_writer().plan(model, {.file_name = "m.gguf"}).files.at(0);
    EXPECT_EQ(file.size % alignment, 0u);
    ASSERT_EQ(file.pieces.size(), 4u);
    for (std::size_t i = 1; i < file.pieces.size(); ++i) EXPECT_EQ(file.pieces[i].offset % alignment, 0u);
    expect_same_tensors(open(rendered(model, file)), model);
  }
}

TEST(GgufWriter, WithoutDataNoPaddingFollows) {
  Model model = make_model({numbered("empty", {0})});
  model.metadata.set("general.alignment", MetaValue::u32(0x8000'0000));
  EXPECT_LT(gguf_writer().plan(model, {}).files.at(0).size, 200u);
}

TEST(GgufWriter, TheSameModelGivesTheSameBytes) {
  const Model model = make_model({numbered("a", {3}), numbered("b", {5})});
  EXPECT_EQ(written(model), written(model));
}

Layout cut(const Model& model, std::uint64_t shard_size) {
  const WriteOptions options{.file_name = "m.gguf", .shard_size = shard_size};
  EXPECT_TRUE(gguf_writer().check(model, options).empty());
  return gguf_writer().plan(model, options);
}

Model five_tensors() {
  Model model =
      make_model({numbered("a", {4}), numbered("b", {4}), numbered("c", {40}), numbered("d", {0}), numbered("e", {4})});
  model.metadata.set("general.architecture", MetaValue::string("test"));
  model.metadata.set("general.alignment", MetaValue::u32(8));
  model.metadata.set("split.count", MetaValue::u32(77));  // of a source that was split otherwise
  return model;
}

TEST(GgufWriter, PartsComeBackAsOneModel) {
  const Model model = five_tensors();
  for (const std::uint64_t shard_size : {1u, 16u, 32u, 100u, 160u, 176u, 10'000u}) {
    const TempDir dir;
    const Layout layout = cut(model, shard_size);
    for (const OutputFile& file : layout.files) wconv::test::write_file(dir / file.name, rendered(model, file));
    const Model back = open_path(dir / layout.files.back().name);
    expect_same_tensors(back, model);
    EXPECT_EQ(back.architecture, "test");
    EXPECT_EQ(back.metadata.size(), 2u);
    EXPECT_TRUE(back.findings.empty()) << back.findings.front().message;
  }
}

TEST(GgufWriter, APartIsNoLargerThanAskedUnlessATensorIs) {
  const Model model = five_tensors();
  const Layout layout = cut(model, 32);
  ASSERT_EQ(layout.files.size(), 3u);
  EXPECT_EQ(layout.files[2].name, "m-00001-of-00003.gguf");  // the first part comes last: it makes the others reachable
  EXPECT_EQ(layout.files[0].name, "m-00002-of-00003.gguf");
  EXPECT_EQ(layout.files[1].name, "m-00003-of-00003.gguf");
  const auto tensors = [&](const OutputFile& file) {
    std::string names;
    for (const Piece& piece : file.pieces)
      if (const auto* tensor = std::get_if<TensorPiece>(&piece.content))
        names += model.tensors[tensor->tensor].info.name;
    return names;
  };
  EXPECT_EQ(tensors(layout.files[2]), "ab");
  EXPECT_EQ(tensors(layout.files[0]), "c");
  EXPECT_EQ(tensors(layout.files[1]), "e");
}

TEST(GgufWriter, OnePartHasTheNameItWasGiven) {
  const Layout layout = cut(five_tensors(), 10'000);
  ASSERT_EQ(layout.files.size(), 1u);
  EXPECT_EQ(layout.files[0].name, "m.gguf");
  EXPECT_EQ(gguf_writer().plan(five_tensors(), {.file_name = "", .folder = true}).files.at(0).name, "model.gguf");
}

TEST(GgufWriter, TiedTensorsAreWrittenTwice) {
  Model model = make_model({numbered("a", {4}), numbered("b", {4})});
  model.tensors[1].data = model.tensors[0].data;
  expect_same_tensors(open(written(model)), model);
}

// What cannot be written: every problem at once, each with what to do.

void expect_problem(const Model& model, std::string_view problem, const WriteOptions& options = {}) {
  const auto problems = gguf_writer().check(model, options);
  EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), [&](const std::string& text) {
    return text.find(problem) != std::string::npos;
  })) << (problems.empty() ? "no problems" : problems.front());
}

TEST(GgufWriterChecks, Names) {
  EXPECT_TRUE(gguf_writer().check(make_model({numbered(std::string(63, 'n'), {1})}), {}).empty());
  expect_problem(make_model({numbered(std::string(64, 'n'), {1})}),
                 "has 64 bytes; llama.cpp loads at most 63: shorten");
  expect_problem(make_model({numbered("", {1})}), "a tensor has no name");
  expect_problem(make_model({numbered(std::string("a\0b", 3), {1})}), "'a\\x00b' has a NUL byte");
  expect_problem(make_model({numbered("a", {1}), numbered("a", {2})}), "two tensors have the name 'a'");
}

TEST(GgufWriterChecks, LongNamesThatWouldBeOneWhenCutAreRefused) {
  const std::string stem(63, 'n');
  const Model model = make_model({numbered(stem + ".weight", {1}), numbered(stem + ".bias", {1})});
  const auto problems = gguf_writer().check(model, {});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_NE(problems[0].find("weight' has 70 bytes"), std::string::npos) << problems[0];
  EXPECT_NE(problems[1].find("bias' has 68 bytes"), std::string::npos) << problems[1];
  const std::string umlauts = stem.substr(0, 62) + "\u00e4";  // 63 characters, 64 bytes
  EXPECT_EQ(gguf_writer().check(make_model({numbered(umlauts, {1})}), {}).size(), 1u);
}

TEST(GgufWriterChecks, Dimensions) {
  expect_problem(make_model({numbered("a", {1, 1, 1, 1, 1})}), "'a' has 5 dimensions; GGUF holds at most 4");
  expect_problem(make_model({numbered("a", {0, 1ull << 63})}), "'a' has a dimension of 9223372036854775808");
}

TEST(GgufWriterChecks, TypesThatGgufDoesNotHave) {
  const auto problem = [](DType dtype) {
    return gguf_writer().check(make_model({numbered("a", {4}, dtype)}), {}).at(0);
  };
  EXPECT_EQ(problem(DType::kU8),
            "tensor 'a' is U8, which GGUF has no type for: convert it with --tensor-dtype 'a=I16' or leave it out with "
            "--exclude 'a'");
  EXPECT_NE(problem(DType::kF8E4M3).find("'a=F16'"), std::string::npos);
  EXPECT_NE(problem(DType::kF8E8M0).find("'a=BF16'"), std::string::npos);
  EXPECT_NE(problem(DType::kBool).find("'a=I8'"), std::string::npos);
  EXPECT_EQ(problem(DType::kC64).find("--tensor-dtype"), std::string::npos);
  for (const DTypeInfo& type : all_dtypes()) {
    const Model model = make_model({numbered("a", {type.block_elements}, type.dtype)});
    EXPECT_EQ(gguf_writer().check(model, {}).empty(), type.ggml >= 0) << type.name;
  }
}

TEST(GgufWriterChecks, ManyProblemsAreSummarised) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 50; ++i) specs.push_back(numbered("t" + std::to_string(i), {4}, DType::kBool));
  const auto problems = gguf_writer().check(make_model(specs), {});
  ASSERT_EQ(problems.size(), 21u);
  EXPECT_EQ(problems.back(), "and 30 more tensors of types that GGUF does not have");
}

TEST(GgufWriterChecks, Metadata) {
  Model model = make_model({numbered("a", {1})});
  model.metadata.set("general.alignment", MetaValue::u32(48));
  expect_problem(model, "general.alignment is 48; it must be a power of two: change it with --set");
  model.metadata.set("general.alignment", {MetaType::kU32, std::uint64_t{1} << 33});
  expect_problem(model, "general.alignment is 8589934592, which is not a u32 (0 to 4294967295)");
  model.metadata.set("general.alignment", MetaValue::string("32"));
  expect_problem(model, "general.alignment has the type string; it must be u32");
  model.metadata.set(std::string(65536, 'k'), MetaValue::boolean(true));
  expect_problem(model, "has 65536 bytes; GGUF allows 65535");
  MetaArray deep;
  for (int depth = 1; depth < 17; ++depth) {
    MetaArray outer{MetaType::kArray, std::vector<MetaArray>{deep}};
    deep = std::move(outer);
  }
  model.metadata.set("deep", MetaValue{MetaType::kArray, deep});
  expect_problem(model, "key 'deep' has arrays more than 16 deep");
}

TEST(GgufWriterChecks, TooManyParts) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 65'536; ++i) specs.push_back(numbered(std::to_string(i), {1}));
  expect_problem(make_model(specs), "65536 parts; a split GGUF has at most 65535",
                 {.file_name = "m.gguf", .shard_size = 1});
}

}  // namespace
}  // namespace wconv::gguf::test
