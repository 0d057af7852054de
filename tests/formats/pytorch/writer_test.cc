#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "build.h"
#include "formats/pytorch/zip_archive.h"
#include "formats/pytorch/zip_plan.h"
#include "support/support.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// Plans, executes and opens again.
Model round_trip(const Model& model, const TempDir& dir, const std::string& name = "out.pth") {
  const FormatWriter* writer = find_writer("pytorch");
  WriteOptions options;
  options.file_name = name;
  EXPECT_THAT(writer->check(model, options), ElementsAre());
  Output output(dir / name, false, true);
  execute(model, writer->plan(model, options), output, {});
  output.commit();
  return open_model(dir / name, {});
}

TEST(PytorchWriter, KeepsEveryDtypeThatTorchHas) {
  std::vector<TensorSpec> specs;
  for (const DTypeInfo& type : all_dtypes()) {
    if (type.torch.empty()) continue;
    std::vector<std::byte> bytes(6u * type.block_bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(type.kind == DTypeKind::kBool ? i % 2 : i * 37 + 11);
    specs.push_back({"t." + std::string(type.name), type.dtype, {2, 3}, bytes});
  }
  ASSERT_GE(specs.size(), 20u);
  const TempDir dir;
  const Model model = round_trip(make_model(specs), dir);
  ASSERT_EQ(model.tensors.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(model.tensors[i].info.name, specs[i].name);
    EXPECT_EQ(model.tensors[i].info.dtype, specs[i].dtype);
    EXPECT_EQ(model.tensors[i].info.shape, specs[i].shape);
    EXPECT_EQ(read_all(model.tensors[i]), specs[i].bytes) << specs[i].name;
    EXPECT_EQ(model.tensors[i].source_offset % 64, 0u);
  }
}

TEST(PytorchWriter, KeepsEmptyTensorsScalarsTiesAndMetadata) {
  Model source = make_model({{"empty", DType::kF32, {0, 3}, {}},
                             {"scalar", DType::kI64, {}, bytes_of<std::int64_t>({-5})},
                             {"a", DType::kF32, {2}, bytes_of<float>({1, 2})},
                             {"b", DType::kF32, {2}, {}}});
  source.tensors[3].data = source.tensors[2].data;
  source.metadata.set("name", MetaValue::string("caf\xc3\xa9 \"x\"\n"));
  source.metadata.set("n", MetaValue::u32(7));
  const TempDir dir;
  const Model model = round_trip(source, dir);
  ASSERT_EQ(model.tensors.size(), 4u);
  EXPECT_EQ(model.tensors[0].info.shape, (std::vector<std::uint64_t>{0, 3}));
  EXPECT_EQ(read_all(model.tensors[1]), bytes_of<std::int64_t>({-5}));
  EXPECT_EQ(model.tensors[2].data, model.tensors[3].data);
  EXPECT_EQ(model.checks.size(), 3u);  // the tied ones share a record
  EXPECT_EQ(*model.metadata.find("name")->as_string(), "caf\xc3\xa9 \"x\"\n");
  EXPECT_EQ(model.metadata.find("n")->type, MetaType::kU32);
}

TEST(PytorchWriter, NamesWhatItCannotHold) {
  const FormatWriter* writer = find_writer("pytorch");
  const Model model =
      make_model({{"bad\xff", DType::kF32, {0}, {}}, {"q", DType::kQ8_0, {32}, std::vector<std::byte>(34)}});
  WriteOptions options;
  options.file_name = "x.pth";
  options.shard_size = 100;
  EXPECT_THAT(writer->check(model, options),
              ElementsAre(HasSubstr("--shard-size"), HasSubstr("not UTF-8"), HasSubstr("'q' is Q8_0")));
}

// As torch.empty and torch.load: sizes are multiplied up to the first 0, strides from the last size with 1 for each 0.
TEST(PytorchWriter, RefusesEmptyTensorsThatTorchCannotCount) {
  const std::uint64_t big = std::uint64_t{1} << 62, most = ~std::uint64_t{0} >> 1;
  const std::vector<std::vector<std::uint64_t>> held = {{most, 0}, {0, most}, {big, 0, 4}, {0, 4, big / 4}},
                                                refused = {{big, 4, 0}, {0, big, 4}, {0, big, 2}, {most + 1, 0}};
  for (const auto& shape : held) {
    const TempDir dir;
    EXPECT_EQ(round_trip(make_model({{"t", DType::kF32, shape, {}}}), dir).tensors.at(0).info.shape, shape);
  }
  for (const auto& shape : refused) {
    EXPECT_THAT(find_writer("pytorch")->check(make_model({{"t", DType::kF32, shape, {}}}), {}),
                ElementsAre(HasSubstr("63 bits")))
        << shape[0];
  }
}

// Numbers of more than 31 bits are LONGs, with as few bytes as Python's.
TEST(PytorchWriter, CountsBeyond31Bits) {
  const Model source = make_model(
      {{"t", DType::kF32, {0x7fffffff, 0x80000000, 0}, {}}, {"u", DType::kF32, {0, 0xffffffff, 0x100000000 / 4}, {}}});
  const TempDir dir;
  const Model model = round_trip(source, dir);
  EXPECT_EQ(model.tensors[0].info.shape, source.tensors[0].info.shape);
  EXPECT_EQ(model.tensors[1].info.shape, source.tensors[1].info.shape);
}

// A record beyond 4 GiB, records behind it, and more records than 65,535: the headers alone, in a sparse file.
TEST(ZipPlan, WritesZip64WhereItIsNeeded) {
  constexpr std::uint64_t kBig = 5'000'000'000;
  constexpr std::size_t kMany = 70'000;
  pytorch::ZipPlan plan;
  plan.add_tensor("r/data/big", 0, kBig);
  plan.add("r/after", {std::byte{'x'}});
  for (std::size_t i = 0; i < kMany; ++i) plan.add(fmt::format("r/{}", i), {});
  const OutputFile planned = plan.finish("x.pth");
  const TempDir dir;
  const int descriptor = ::open((dir / "x.pth").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(descriptor, static_cast<off_t>(planned.size)), 0);
  std::uint64_t end = 0;
  for (const Piece& piece : planned.pieces) {
    EXPECT_GE(piece.offset, end);
    const auto* literal = std::get_if<LiteralPiece>(&piece.content);
    const auto* tensor = std::get_if<TensorPiece>(&piece.content);
    end = piece.offset + (literal ? literal->bytes.size() : tensor ? tensor->size : 4);
    if (tensor) {
      EXPECT_EQ(piece.offset % 64, 0u);
    }
    if (!literal) continue;
    ASSERT_EQ(::pwrite(descriptor, literal->bytes.data(), literal->bytes.size(), static_cast<off_t>(piece.offset)),
              static_cast<ssize_t>(literal->bytes.size()));
  }
  EXPECT_EQ(end, planned.size);
  ::close(descriptor);
  const pytorch::ZipArchive archive(File::open(dir / "x.pth"));
  ASSERT_EQ(archive.records().size(), kMany + 2);
  EXPECT_EQ(archive.find("r/data/big")->size, kBig);
  EXPECT_EQ(archive.find("r/data/big")->data_offset % 64, 0u);
  EXPECT_GT(archive.find("r/after")->data_offset, kBig);
  const auto content = archive.content(*archive.find("r/after"));
  EXPECT_EQ(content.end - content.begin, 1u);
}

}  // namespace
}  // namespace wconv
