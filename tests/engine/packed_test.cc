// Compressed outputs and inputs: the same bytes for any number of threads, digests of what lies on disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "core/hash.h"
#include "core/zstd_file.h"
#include "core/zstd_writer.h"
#include "engine/tiles.h"
#include "support/support.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of_size(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 50);
  return bytes;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.hex();
}
Bytes file_bytes(const std::string& path) { return test::bytes_of(std::span<const char>(test::read_file(path))); }

Bytes content_of(const std::string& path) {
  const auto file = unpacked(File::open(path));
  EXPECT_TRUE(file->is_unpacked());
  Bytes bytes(file->size());
  file->read(0, bytes);
  return bytes;
}

// Q6_K has blocks of 210 bytes, which no frame ends with; one tensor is tied.
Model model_of_many_kinds() {
  Model model = test::make_model({{"blocks", DType::kQ6_K, {10, 256 * 1000}, bytes_of_size(2'100'000, 1)},
                                  {"empty", DType::kF32, {0}, {}},
                                  {"large", DType::kI16, {1'500'000}, bytes_of_size(3'000'000, 2)},
                                  {"small", DType::kU8, {5}, bytes_of_size(5, 3)}});
  model.tensors.push_back(model.tensors[2]);
  model.tensors.back().info.name = "tied";
  return model;
}

EngineResult write(const Model& model, const Layout& layout, const std::string& path, unsigned threads, bool hash) {
  EngineOptions options;
  options.threads = threads;
  options.hash = hash;
  Output output(path, false, false);
  EngineResult result = execute(model, layout, output, options);
  output.commit();
  return result;
}

// Writes the layout's one file plain and compressed, on any number of threads; what the compressed ones unpack to is
// the plain one.
void expect_packed_as_plain(const Model& model, Layout layout) {
  const test::TempDir dir;
  layout.files[0].name = "plain";
  write(model, layout, dir / "plain", 2, true);
  const Bytes plain = file_bytes(dir / "plain");
  Bytes first;
  for (const unsigned threads : {1u, 2u, 3u, 7u}) {
    for (const bool hash : {true, false}) {
      const std::string name = fmt::format("packed-{}-{}", threads, hash);
      layout.files[0].name = name;
      layout.files[0].zstd_level = 1;
      const EngineResult result = write(model, layout, dir / name, threads, hash);
      const Bytes packed = file_bytes(dir / name);
      if (first.empty()) {
        first = packed;
        EXPECT_TRUE(content_of(dir / name) == plain);
        EXPECT_LE(packed.size(), zstd_file_bound(plain.size()));
      }
      EXPECT_TRUE(packed == first) << name;
      ASSERT_EQ(result.outputs.size(), 1u);
      EXPECT_EQ(result.outputs[0].bytes, packed.size());
      EXPECT_EQ(result.outputs[0].sha256, hash ? sha256(packed) : "");
      for (std::size_t t = 0; hash && t < model.tensors.size(); ++t)
        EXPECT_EQ(result.tensors[t].sha256, sha256(test::read_all(model.tensors[t]))) << model.tensors[t].info.name;
    }
  }
}

Model without_blocks() {
  Model model = model_of_many_kinds();
  model.tensors.erase(model.tensors.begin());
  return model;
}

TEST(PackedOutput, UnpacksToThePlainOutputForEveryFormat) {
  const Model blocks = model_of_many_kinds(), plain = without_blocks();
  expect_packed_as_plain(blocks, find_writer("gguf")->plan(blocks, {.file_name = "m"}));
  expect_packed_as_plain(plain, find_writer("safetensors")->plan(plain, {.file_name = "m"}));
  expect_packed_as_plain(plain, find_writer("pytorch")->plan(plain, {.file_name = "m"}));
}

TEST(PackedOutput, AnySizeAroundTheEndOfAFrame) {
  for (const std::uint64_t size : {std::uint64_t{1}, kZstdFrameBytes - 1, kZstdFrameBytes, kZstdFrameBytes + 1,
                                   2 * kZstdFrameBytes, 2 * kZstdFrameBytes + 1}) {
    const Model model = test::make_model({{"t", DType::kU8, {size}, bytes_of_size(size, 4)}});
    Layout layout;
    OutputFile& file = layout.files.emplace_back();
    file.size = size;
    file.pieces.emplace_back().content = TensorPiece{0, size};
    expect_packed_as_plain(model, layout);
  }
}

TEST(PackedOutput, ASlotMayBeCutByTheEndOfAFrame) {
  for (std::uint64_t before = 0; before <= 5; ++before) {
    const std::uint64_t size = kZstdFrameBytes - before;
    const Model model = test::make_model({{"t", DType::kU8, {size}, bytes_of_size(size, 5)}});
    Layout layout;
    OutputFile& file = layout.files.emplace_back();
    file.size = size + 4 + 100;  // the rest is zero
    file.pieces.emplace_back().content = TensorPiece{0, size, true};
    Piece& slot = file.pieces.emplace_back();
    slot.offset = size;
    slot.content = Crc32Piece{0};
    expect_packed_as_plain(model, layout);
  }
}

TEST(PackedOutput, PiecesThatOverlapAreABug) {
  const Model model = test::make_model({{"t", DType::kU8, {100}, bytes_of_size(100, 5)}});
  Layout layout;
  OutputFile& file = layout.files.emplace_back();
  file.size = 200;
  file.zstd_level = 3;
  file.pieces.emplace_back().content = TensorPiece{0, 100};
  Piece& second = file.pieces.emplace_back();
  second.offset = 99;
  second.content = LiteralPiece{Bytes(10)};
  EXPECT_THROW(engine::output_tasks(model, layout, true, kZstdFrameBytes), Error);
}

TEST(PackedOutput, AtLeastAFrameForEachBuffer) {
  Layout layout;
  layout.files.emplace_back().size = std::uint64_t{1} << 40;
  layout.files[0].zstd_level = 19;
  EngineOptions options;
  for (options.threads = 1; options.threads < 100; ++options.threads) {
    const engine::Budget budget = engine::plan_budget(layout, options);
    EXPECT_EQ(budget.tile_bytes, kZstdFrameBytes);
    EXPECT_EQ(budget.buffer_bytes, kZstdFrameBytes + zstd_frame_bound(kZstdFrameBytes));
    EXPECT_LE(budget.buffers * budget.buffer_bytes, 256u << 20);
  }
}

TEST(ReadSlice, NeedsNoWholeBlocks) {
  const Model model = test::make_model({{"blocks", DType::kQ6_K, {5, 256}, bytes_of_size(1050, 6)}});
  const Bytes whole = test::read_all(model.tensors[0]);
  for (std::size_t begin = 0; begin < whole.size(); begin += 7) {
    for (std::size_t size = 0; size <= whole.size() - begin; size += 13) {
      Bytes out(size);
      engine::read_slice(model.tensors[0], begin, out);
      ASSERT_TRUE(std::ranges::equal(out, std::span(whole).subspan(begin, size))) << begin << ' ' << size;
    }
  }
}

// The input as a compressed file of `frame` bytes each (0: one frame), with or without a seek table.
std::string pack_file(const std::string& from, const std::string& to, std::size_t frame, bool table) {
  const Bytes content = file_bytes(from);
  Bytes packed;
  std::vector<std::uint32_t> sizes;
  for (std::size_t done = 0; done < content.size();) {
    const auto part = std::span(content).subspan(done, std::min(frame ? frame : content.size(), content.size() - done));
    Bytes out(zstd_frame_bound(part.size()));
    ZstdCompressor compressor(1);
    out.resize(compressor.compress(part, out));
    packed.insert(packed.end(), out.begin(), out.end());
    sizes.push_back(static_cast<std::uint32_t>(out.size()));
    done += part.size();
  }
  if (table) {
    const Bytes end = zstd_seek_table(sizes, content.size());
    packed.insert(packed.end(), end.begin(), end.end());
  }
  test::write_file(to, packed);
  return to;
}

TEST(PackedInput, ItsDigestIsThatOfTheFileAndTheOutputIsTheSame) {
  const test::TempDir dir;
  const Bytes large = bytes_of_size(9'000'000, 7);
  const Model model =
      test::make_model({{"a", DType::kI32, {large.size() / 4}, large}, {"b", DType::kU8, {3}, bytes_of_size(3, 8)}});
  for (const std::string format : {"safetensors", "pytorch"}) {
    const Layout layout = find_writer(format)->plan(model, {.file_name = format});
    write(model, layout, dir / format, 2, false);
    const Model plain = open_model(dir / format, {});
    for (const auto& [kind, frame, table] : {std::tuple("seekable", kZstdFrameBytes, true),
                                             {"frames", kZstdFrameBytes, false},
                                             {"stream", std::size_t{0}, false}}) {
      const std::string path = pack_file(dir / format, dir / (format + "-" + kind), frame, table);
      const Model packed = open_model(path, {});
      EXPECT_EQ(packed.files[0].bytes, std::filesystem::file_size(path));
      const Layout again = find_writer("safetensors")->plan(packed, {.file_name = "out"});
      for (const unsigned threads : {1u, 7u}) {
        for (const bool hash : {true, false}) {
          const test::TempDir out;
          const EngineResult result = write(packed, again, out / "out", threads, hash);
          ASSERT_EQ(result.inputs.size(), 1u) << "the file on disk alone";
          EXPECT_EQ(result.inputs[0].path, path);
          EXPECT_EQ(result.inputs[0].bytes, std::filesystem::file_size(path));
          EXPECT_EQ(result.inputs[0].sha256, hash ? sha256(file_bytes(path)) : "");
          const Model back = open_model(out / "out", {});
          for (const Tensor& tensor : plain.tensors)
            EXPECT_TRUE(test::read_all(back.tensors[static_cast<std::size_t>(find_tensor(back, tensor.info.name))]) ==
                        test::read_all(tensor));
        }
      }
    }
  }
}

TEST(PackedInput, TheChecksumsOfZipRecordsInItAreCompared) {
  const test::TempDir dir;
  const Bytes data = bytes_of_size(3'000'000, 9);
  const Model model = test::make_model({{"w", DType::kU8, {data.size()}, data}});
  write(model, find_writer("pytorch")->plan(model, {.file_name = "m"}), dir / "m", 2, false);
  Bytes bytes = file_bytes(dir / "m");
  const auto at = std::search(bytes.begin(), bytes.end(), data.begin() + 1'000'000, data.begin() + 1'000'100);
  ASSERT_NE(at, bytes.end());
  *at ^= std::byte{1};
  test::write_file(dir / "damaged", bytes);
  for (const std::size_t frame : {kZstdFrameBytes, std::size_t{0}}) {
    const Model packed = open_model(pack_file(dir / "damaged", dir / "damaged.zst", frame, frame > 0), {});
    for (const bool hash : {true, false}) {
      const test::TempDir out;
      try {
        write(packed, find_writer("safetensors")->plan(packed, {.file_name = "out"}), out / "out", 2, hash);
        ADD_FAILURE() << "damage was copied";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
        EXPECT_NE(std::string_view(error.what()).find("CRC-32"), std::string_view::npos) << error.what();
      }
      EXPECT_TRUE(out.names().empty());
    }
  }
}

}  // namespace
}  // namespace wconv
