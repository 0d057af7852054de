// An ONNX model with 3 GB of external data, made here: a sparse file with values at the ends of its tensors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/onnx/proto.h"
#include "support/support.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Part {
  std::string name;
  std::uint64_t elements;
  float first, last;
  std::uint16_t first_f16, last_f16;  // the same numbers
};

// The first alone has more than 2^31 bytes; the others lie behind it.
const std::vector<Part>& parts() {
  static const std::vector<Part> all = {{"huge", (1u << 29) + 1024, 1.5f, -2.0f, 0x3e00, 0xc000},
                                        {"middle", 150'000'000, 65504.0f, 0.25f, 0x7bff, 0x3400},
                                        {"last", 64'000'001, -0.5f, 3.0f, 0xb800, 0x4200}};
  return all;
}

void put(int file, std::uint64_t at, float value) {
  ASSERT_EQ(::pwrite(file, &value, sizeof value, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof value));
}

std::string make_model(const test::TempDir& dir) {
  using namespace onnx::test;
  const int file = ::open((dir / "m.data").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  Proto graph = graph_of({});
  std::uint64_t at = 0;
  for (const Part& part : parts()) {
    const std::uint64_t bytes = 4 * part.elements;
    graph.message(5, onnx::test::tensor(part.name, kFloat, {part.elements})
                         .message(13, entry("location", "m.data"))
                         .message(13, entry("offset", std::to_string(at)))
                         .message(13, entry("length", std::to_string(bytes)))
                         .number(14, 1));
    put(file, at, part.first);
    put(file, at + bytes - 4, part.last);
    at += bytes;
  }
  ::close(file);
  EXPECT_GT(at, 3'000'000'000u);
  test::write_file(dir / "m.onnx", model_of(graph).bytes());
  return dir / "m.onnx";
}

std::uint16_t half_at(const Tensor& tensor, std::uint64_t index) {
  std::uint16_t value = 0;
  tensor.data->read(2 * index, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Both ends of a tensor in F16 and what is beside them.
void expect_halves(const Model& model, const Part& part) {
  const Tensor& tensor = model.tensors.at(static_cast<std::size_t>(find_tensor(model, part.name)));
  ASSERT_EQ(tensor.info.dtype, DType::kF16);
  ASSERT_EQ(tensor.info.shape, std::vector<std::uint64_t>{part.elements});
  EXPECT_EQ(half_at(tensor, 0), part.first_f16) << part.name;
  EXPECT_EQ(half_at(tensor, 1), 0) << part.name;
  EXPECT_EQ(half_at(tensor, part.elements - 2), 0) << part.name;
  EXPECT_EQ(half_at(tensor, part.elements - 1), part.last_f16) << part.name;
}

Model convert(const std::string& source, const std::string& out, const std::vector<std::string>& options) {
  std::vector<std::string> command = {"--json", "convert", source, "-o", out, "--dtype", "f16", "--no-manifest"};
  command.insert(command.end(), options.begin(), options.end());
  const test::RunResult result = test::wconv(command);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_LE(json::parse(result.out)["peak_memory_bytes"].get<std::uint64_t>(), 150u << 20);
  return open_model(out, {});
}

TEST(ExternalDataOf3Gigabytes, IsInspectedAtOnceAndRewrittenInBoundedMemory) {
  const test::TempDir dir;
  if (std::filesystem::space(dir.path()).available < 2'000'000'000) GTEST_SKIP() << "no room for an output of 1.5 GB";
  const std::string source = make_model(dir);
  const auto start = Clock::now();
  const test::RunResult inspected = test::wconv({"--json", "inspect", source});
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_EQ(json::parse(inspected.out)["tensors"][2]["offset"], 4 * ((1u << 29) + 1024 + 150'000'000ull));
  const Model rewritten = convert(source, dir / "half.onnx", {});
  ASSERT_EQ(rewritten.tensors.size(), parts().size());
  for (const Part& part : parts()) expect_halves(rewritten, part);
  expect_halves(convert(source, dir / "last.safetensors", {"--include", "last"}), parts().back());
}

}  // namespace
}  // namespace wconv
