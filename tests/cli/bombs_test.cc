// Small or plain files that ask for much memory or time: read or refused within limits of both. And what a cut file
// leaves behind: nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/gguf/file_builder.h"
#include "formats/onnx/proto.h"
#include "formats/pytorch/build.h"
#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

// 124: it took longer; memory above the limit is exit status 74 or a signal.
RunResult limited(std::vector<std::string> arguments, [[maybe_unused]] int mib, int seconds) {
  std::vector<std::string> command = {"timeout", std::to_string(seconds)};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  command.insert(command.end(), {"prlimit", fmt::format("--as={}", std::uint64_t(mib) << 20), "--core=0"});
#endif
  command.push_back(WCONV_BINARY);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

// 99 bytes of JSON for each of `tensors` tensors of one byte.
std::string long_header(unsigned tensors) {
  std::string header = "{";
  for (unsigned i = 0; i < tensors; ++i)
    header +=
        fmt::format(R"({}"model.layers.{}.mlp.down_proj.weight":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                    i ? "," : "", i, i, i + 1);
  return header + "}";
}

TEST(Bombs, AHeaderOf50MegabytesIsReadInBoundedMemory) {
  constexpr unsigned kTensors = 1 << 19;
  const TempDir dir;
  const std::string header = long_header(kTensors);
  const std::string path = dir / "m.safetensors";
  write_file(path, le(header.size(), 8) + header + std::string(kTensors, 'x'));
  const RunResult sound = limited({"inspect", path, "--threads", "1"}, 512, 60);
  EXPECT_EQ(sound.status, 0) << sound.err;
  EXPECT_NE(sound.out.find("524,288"), std::string::npos);
  fs::resize_file(path, fs::file_size(path) - 1);
  const RunResult cut = limited({"inspect", path, "--threads", "1"}, 320, 20);
  EXPECT_EQ(cut.status, 65) << cut.err;
  write_file(path, le(header.size(), 8) + header.substr(0, header.size() - 1) + ",\"z\":");
  EXPECT_EQ(limited({"inspect", path, "--threads", "1"}, 320, 20).status, 65);
}

TEST(Bombs, AHeaderOfMoreTensorsThanAnyModelHasIsRefusedBeforeTheyFillTheMemory) {
  const TempDir dir;
  const std::string header = long_header(900'000), path = dir / "m.safetensors";
  write_file(path, le(header.size(), 8) + header + std::string(900'000, 'x'));
  const RunResult result = limited({"inspect", path, "--threads", "1"}, 320, 20);
  EXPECT_EQ(result.status, 65) << result.err;
  EXPECT_NE(result.err.find("more than 524288 tensors"), std::string::npos) << result.err;
}

struct Bomb {
  const char* name;
  std::string bytes;
};

std::vector<Bomb> bombs() {
  const std::string deep(100'000, '[');
  std::string marks = "\x80\x02" + std::string(10'000'000, '(');
  std::string lists = "\x80\x02";
  for (int i = 0; i < 10'000; ++i) lists += "]";  // and each into the one before it
  lists += std::string(9'999, 'a') + ".";
  gguf::test::FileBuilder arrays;
  arrays.head(0, 1).key("k", MetaType::kArray);
  for (int i = 0; i < 10'000; ++i) arrays.u32(static_cast<std::uint32_t>(MetaType::kArray)).u64(1);
  const auto arrays_bytes = arrays.bytes();
  onnx::test::Proto graphs = onnx::test::graph_of({});
  for (int i = 0; i < 5000; ++i)
    graphs = onnx::test::Proto().message(
        1, onnx::test::Proto().text(4, "If").message(5, onnx::test::Proto().text(1, "b").message(6, graphs)));
  const std::string nested_json = R"({"w":{"dtype":"F32","x":)" + deep;
  return {{"json", le(nested_json.size(), 8) + nested_json},
          {"pickle_marks", marks},
          {"pickle_lists", lists},
          {"zip_of_lists", make_zip({{"a/data.pkl", lists}})},
          {"zip_of_deflated_marks", make_zip({{"a/data.pkl", "\x80\x02" + std::string(60 << 20, '('), true}})},
          {"zip_of_deflated_zeros", make_zip({{"a/data.pkl", std::string(100 << 20, '\0'), true}})},
          {"gguf_arrays", std::string(reinterpret_cast<const char*>(arrays_bytes.data()), arrays_bytes.size())},
          {"onnx_graphs", onnx::test::model_of(graphs).bytes()}};
}

TEST(Bombs, OfDepthAndOfDeflateAreRefusedByEveryVerb) {
  const TempDir dir;
  for (const Bomb& bomb : bombs()) {
    const std::string path = dir / bomb.name;
    write_file(path, bomb.bytes);
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"inspect", path}, {"inspect", "--scan", path}, {"convert", path, "-o", dir / "out.safetensors"}}) {
      const RunResult result = limited(arguments, 1024, 20);
      EXPECT_EQ(result.status, 65) << bomb.name << arguments[1] << result.err;
    }
    fs::remove(path);
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>());
}

// Views of huge sizes over one number are listed at once; written they are not.
TEST(Bombs, AnExpandedViewIsNotUnfolded) {
  const TempDir dir;
  const std::string path = dir / "m.pth";
  const auto views = [](std::uint64_t rows, std::uint64_t count) {
    std::vector<std::pair<std::string, std::string>> items = {{"small", tensor_op()}};
    for (std::uint64_t i = 0; i < count; ++i)
      items.emplace_back(fmt::format("w{}", i), tensor_op({.shape = {rows, 1u << 20}, .strides = {0, 0}}));
    return checkpoint(dict_op(items));
  };
  // 12 TiB, which a list of tasks could be made for; 2^51 bytes; and 2^64 bytes, as which a sum of 64 bits wraps.
  for (const auto& [rows, count] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{3u << 20, 1}, {1u << 29, 1}, {1u << 30, 4096}}) {
    write_file(path, views(rows, count));
    EXPECT_EQ(limited({"inspect", path}, 512, 10).status, 0) << count;
    EXPECT_EQ(limited({"verify", path, path, "--keys"}, 512, 10).status, 0) << count;
    for (const std::vector<std::string>& reading : std::vector<std::vector<std::string>>{
             {"inspect", path, "--stats"}, {"inspect", path, "--hash"}, {"verify", path, path}}) {
      const RunResult result = limited(reading, 512, 10);
      EXPECT_EQ(result.status, 65) << result.err;
      EXPECT_NE(result.err.find("their values are not read"), std::string::npos) << result.err;
    }
    for (const std::string out : {"out.safetensors", "out.gguf", "out.pth", "out.safetensors.zst", "folder"}) {
      const RunResult result = limited({"convert", path, "-o", dir / out, "--threads", "1"}, 256, 10);
      EXPECT_EQ(result.status, result.err.find("the disk is full") == std::string::npos ? 65 : 74) << out << result.err;
    }
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>{"m.pth"});
}

// "Bleeding Llama" (CVE-2026-7482): bytes from beyond the file in an output.
TEST(CutFiles, GiveNoOutputInAnyFormat) {
  const TempDir dir;
  fs::create_directory(dir / "in");
  const auto copy_cut = [&](const std::string& name, const std::string& source) {
    const std::string bytes = read_file(std::string(WCONV_TEST_DATA "/") + source);
    write_file(dir / ("in/" + name), std::string_view(bytes).substr(0, bytes.size() - 1));
  };
  copy_cut("a.safetensors", "cases/B07/unaligned_header.safetensors");
  copy_cut("b.pth", "cases/A03/zip_p2.pth");
  copy_cut("c.pth", "cases/A03/legacy_p2.pth");
  copy_cut("d.gguf", "cases/C06/last_tensor_unpadded.gguf");
  copy_cut("e.onnx", "formats/onnx/golden/lists.onnx");
  write_file(dir / "in/f.onnx", onnx::test::model_with({onnx::test::external("w", "f.bin")}).bytes());
  write_file(dir / "in/f.bin", std::string(7, 'x'));
  for (const std::string input : {"a.safetensors", "b.pth", "c.pth", "d.gguf", "e.onnx", "f.onnx"}) {
    for (const std::string out : {"out.safetensors", "out.pth", "out.gguf", "folder"})
      EXPECT_EQ(wconv({"convert", dir / ("in/" + input), "-o", dir / out}).status, 65) << input;
    EXPECT_EQ(wconv({"verify", dir / ("in/" + input)}).status, 65) << input;
    EXPECT_EQ(wconv({"inspect", "--hash", dir / ("in/" + input)}).status, 65) << input;
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>{"in"});
}

}  // namespace
}  // namespace wconv::test
