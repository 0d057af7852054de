// Sizes beyond 32 bits, in sparse files; many tensors; ranks.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "formats/gguf/file_builder.h"
#include "formats/onnx/proto.h"
#include "formats/pytorch/build.h"
#include "support/support.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using test::TempDir;

constexpr std::uint64_t kElements = (std::uint64_t{1} << 32) + 3;  // of one byte: beyond 2^31 elements and 4 GiB
constexpr std::uint64_t kMarks[] = {0, 0x7fff'ffff, 0x8000'0000, 0xffff'ffff, 0x1'0000'0000, kElements - 1};

// `head`, then the tensor as a hole with a byte at each mark, and the tail.
void write_sparse(const std::string& path, std::string_view head, std::string_view tail = "") {
  test::write_file(path, head);
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const auto put = [&](std::string_view text, std::uint64_t at) {
    EXPECT_EQ(::pwrite(file, text.data(), text.size(), static_cast<off_t>(at)), static_cast<ssize_t>(text.size()));
  };
  char value = 'a';
  for (const std::uint64_t mark : kMarks) put(std::string(1, value++), head.size() + mark);
  if (!tail.empty()) put(tail, head.size() + kElements);
  ::close(file);
}

void expect_marks(const std::string& path) {
  const Model model = open_model(path, {});
  ASSERT_EQ(model.tensors.size(), 1u);
  const Tensor& tensor = model.tensors[0];
  EXPECT_EQ(element_count(tensor.info.shape), kElements);
  ASSERT_EQ(tensor.data->size_bytes(), kElements);
  char value = 'a';
  for (const std::uint64_t mark : kMarks) {
    std::byte read{};
    tensor.data->read(mark, {&read, 1});
    EXPECT_EQ(static_cast<char>(read), value++) << mark;
  }
  const test::RunResult plan = test::wconv({"--json", "convert", path, "-o", path + ".safetensors", "--dry-run"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out.find("\"bytes\": 42949"), std::string::npos) << plan.out;
}

TEST(Beyond32Bits, Safetensors) {
  const TempDir dir;
  const std::string header = fmt::format(R"({{"w":{{"dtype":"I8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kElements);
  write_sparse(dir / "m", test::le(header.size(), 8) + header);
  expect_marks(dir / "m");
}

TEST(Beyond32Bits, Gguf) {
  const TempDir dir;
  constexpr std::uint32_t kTypeI8 = 24;
  const auto head = gguf::test::FileBuilder().head(1, 0).tensor("w", {kElements}, kTypeI8, 0).pad(32).bytes();
  write_sparse(dir / "m", {reinterpret_cast<const char*>(head.data()), head.size()});
  expect_marks(dir / "m");
}

TEST(Beyond32Bits, OnnxExternalData) {
  const TempDir dir;
  using namespace onnx::test;
  test::write_file(
      dir / "m.onnx",
      model_with({tensor("w", kInt8, {kElements}).message(13, entry("location", "w.bin")).number(14, 1)}).bytes());
  write_sparse(dir / "w.bin", "");
  expect_marks(dir / "m.onnx");
}

// A legacy checkpoint: the storage is the last thing in the file.
TEST(Beyond32Bits, PytorchStream) {
  const TempDir dir;
  const std::string wide = "\x8a\x08" + test::le(kElements, 8);  // LONG1
  const std::string ops = "}" + test::text_op("w") + test::global_op("torch._utils", "_rebuild_tensor_v2") + "((" +
                          test::text_op("storage") + test::global_op("torch", "CharStorage") + test::text_op("0") +
                          test::text_op("cpu") + wide + "NtQ" + test::int_op(0) + "(" + wide + "t(" + test::int_op(1) +
                          "t\x89" + test::global_op("collections", "OrderedDict") + ")RtRs";
  const std::string magic = "\x8a\x0a" + std::string("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  std::string head = test::pickle_of(magic) + test::pickle_of("M\xe9\x03") + test::pickle_of("}");
  head += test::pickle_of(ops) + test::pickle_of("]" + test::text_op("0") + "a") + test::le(kElements, 8);
  write_sparse(dir / "m", head);
  expect_marks(dir / "m");
}

TEST(Beyond32Bits, PytorchZip) {
  const TempDir dir;
  const std::string source = dir / "m";
  const std::string header = fmt::format(R"({{"w":{{"dtype":"I8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kElements);
  write_sparse(source, test::le(header.size(), 8) + header);
  const test::RunResult plan = test::wconv({"--json", "convert", source, "-o", dir / "out.pth", "--dry-run"});
  EXPECT_EQ(plan.status, 0) << plan.err;  // ZipPlan.WritesZip64WhereItIsNeeded reads such an archive back
}

constexpr unsigned kMany = 100'000;
std::string name_of(unsigned i) { return fmt::format("model.layers.{}.self_attn.q_proj.weight", i); }

void expect_many(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  const Model model = open_model(path, {});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ASSERT_EQ(model.tensors.size(), kMany);
  EXPECT_GE(find_tensor(model, name_of(kMany - 1)), 0);
}

TEST(AHundredThousandTensors, GoThroughEveryFormat) {
  const TempDir dir;
  std::vector<test::TensorSpec> tensors;
  for (unsigned i = 0; i < kMany; ++i) tensors.push_back({name_of(i), DType::kF16, {1}, std::vector<std::byte>(2)});
  const std::string source = test::write_safetensors(dir / "m.safetensors", tensors);
  expect_many(source);
  for (const std::string out : {"m.pth", "m.gguf"}) {
    const test::RunResult result = test::wconv({"convert", source, "-o", dir / out, "--no-manifest"});
    ASSERT_EQ(result.status, 0) << result.err;
    expect_many(dir / out);
  }
}

TEST(AHundredThousandTensors, OfOnnx) {
  const TempDir dir;
  onnx::test::Proto graph;
  for (unsigned i = 0; i < kMany; ++i)
    graph.message(5, onnx::test::tensor(name_of(i), onnx::test::kInt8, {1}).text(9, "x"));
  test::write_file(dir / "m.onnx", onnx::test::model_of(graph.text(2, "g")).bytes());
  expect_many(dir / "m.onnx");
}

TEST(Ranks, From0To8GoThroughEveryFormatThatHasThem) {
  const TempDir dir;
  std::vector<test::TensorSpec> tensors;
  for (std::uint64_t rank = 0; rank <= 8; ++rank) {
    std::vector<std::uint64_t> shape(rank, 1);
    if (rank > 0) shape.back() = 2;
    if (rank > 4) shape.front() = 2;
    std::vector<std::byte> bytes(element_count(shape));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(rank * 16 + i);
    tensors.push_back({fmt::format("rank{}", rank), DType::kI8, shape, bytes});
  }
  const std::string source = test::write_safetensors(dir / "m.safetensors", tensors);
  ASSERT_EQ(test::wconv({"convert", source, "-o", dir / "m.pth"}).status, 0);
  ASSERT_EQ(test::wconv({"convert", dir / "m.pth", "-o", dir / "back.safetensors"}).status, 0);
  EXPECT_EQ(test::wconv({"verify", source, dir / "back.safetensors"}).status, 0);
  const test::RunResult gguf = test::wconv({"convert", source, "-o", dir / "m.gguf"});
  EXPECT_EQ(gguf.status, 65);
  EXPECT_NE(gguf.err.find("'rank8' has 8 dimensions; GGUF holds at most 4"), std::string::npos) << gguf.err;
}

}  // namespace
}  // namespace wconv
