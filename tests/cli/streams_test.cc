// Standard streams, pipes and FIFOs in place of files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/process.h"
#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

std::string one_tensor(const std::string& path) {
  return write_safetensors(path, {{"w", DType::kF32, {1}, bytes_of({1.0f})}});
}

// Of a command that must not wait for a writer or reader of a stream.
RunResult at_once(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"timeout", "10", WCONV_BINARY});
  return run(arguments);
}

class NoFile : public testing::TestWithParam<const char*> {};

TEST_P(NoFile, IsRefusedByEveryVerbWithoutWaiting) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const std::string model = one_tensor(dir / "m.safetensors");
  const std::string odd = GetParam()[0] == '/' ? GetParam() : dir / GetParam();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"inspect", odd},
                                             {"inspect", "--scan", odd},
                                             {"convert", odd, "-o", dir / "out.gguf"},
                                             {"convert", model, "--weights", odd, "-o", dir / "out.gguf"},
                                             {"convert", model, "--set-file", "a=" + odd, "-o", dir / "out.gguf"},
                                             {"verify", odd},
                                             {"verify", model, odd}}) {
    const RunResult result = at_once(arguments);
    EXPECT_EQ(result.status, 2) << arguments[0] << result.err;
    EXPECT_NE(result.err.find("is a "), std::string::npos) << result.err;
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>({"fifo", "m.safetensors"}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, NoFile, testing::Values("fifo", "/dev/null", "/dev/zero", "/dev/stdin"),
                         [](const auto& parameter) {
                           const std::string path = parameter.param;
                           return path.substr(path.rfind('/') + 1);
                         });

TEST(NoFile, APipeAsStdinIsRefusedAndNotDrained) {
  const TempDir dir;
  const std::string model = one_tensor(dir / "m.safetensors");
  for (const char* arguments : {"inspect /dev/stdin", "inspect -", "verify /dev/fd/0", "convert - -o out.gguf"}) {
    const RunResult result =
        run({"sh", "-c", "cat '" + model + "' | timeout 10 " WCONV_BINARY " " + std::string(arguments)});
    EXPECT_EQ(result.status, 2) << result.err;
  }
}

TEST(NoFile, FilesOfTheKernelAreEmptyAndRefused) {
  const TempDir dir;
  for (const std::string path : {"/proc/self/mem", "/proc/self/environ", "/proc/self/maps"}) {
    const RunResult result = at_once({"convert", path, "-o", dir / "out.gguf"});
    EXPECT_EQ(result.status, 65) << result.err;
    EXPECT_NE(result.err.find("is empty (0 bytes)"), std::string::npos) << result.err;
  }
}

TEST(NoFile, AFifoAmongShardsOrSideFilesIsNotWaitedFor) {
  const TempDir dir;
  fs::create_directory(dir / "m");
  one_tensor(dir / "m/model.safetensors");
  ASSERT_EQ(::mkfifo((dir / "m/tokenizer.json").c_str(), 0600), 0);
  EXPECT_NE(at_once({"inspect", dir / "m"}).status, 124);
  fs::remove(dir / "m/tokenizer.json");
  ASSERT_EQ(::mkfifo((dir / "m/shard.safetensors").c_str(), 0600), 0);
  write_file(dir / "m/model.safetensors.index.json", R"({"weight_map":{"w":"shard.safetensors"}})");
  const RunResult result = at_once({"inspect", dir / "m"});
  EXPECT_TRUE(result.status == 2 || result.status == 65) << result.status << result.err;
  EXPECT_NE(at_once({"inspect", "--scan", dir / "m"}).status, 124);
}

TEST(NoFile, OutputsAreFilesToo) {
  const TempDir dir;
  const std::string model = one_tensor(dir / "m.safetensors");
  ASSERT_EQ(::mkfifo((dir / "fifo.gguf").c_str(), 0600), 0);
  EXPECT_EQ(at_once({"convert", model, "-o", dir / "fifo.gguf"}).status, 2) << "it exists";
  const RunResult forced = at_once({"convert", model, "-o", dir / "fifo.gguf", "--force"});
  EXPECT_NE(forced.status, 124) << "it waits for a reader";
  EXPECT_EQ(at_once({"convert", model, "-o", "-", "--to", "gguf"}).status, 2);
}

// A job runner's pipe may be O_NONBLOCK and full: then the rest is written when there is room.
TEST(Stdout, OfAFullPipeThatDoesNotBlockIsWaitedFor) {
  const TempDir dir;
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 5000; ++i) tensors.push_back({"tensor_" + std::to_string(i), DType::kF32, {1}, bytes_of({1.0f})});
  const std::string model = write_safetensors(dir / "m.safetensors", tensors);
  const std::string whole = wconv({"inspect", "--json", model}).out;
  ASSERT_GT(whole.size(), std::size_t{1} << 18);  // more than a pipe holds
  Pipe out;
  ASSERT_EQ(::fcntl(out.ends[1], F_SETFL, O_NONBLOCK), 0);
  Process process({"inspect", "--json", model}, out.ends[1], -1);
  EXPECT_EQ(out.drain(), whole);
  EXPECT_EQ(process.wait(), 0);
}

}  // namespace
}  // namespace wconv::test
