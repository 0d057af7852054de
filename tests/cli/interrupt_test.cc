// SIGINT and SIGTERM in the middle of a conversion; closed pipes and terminals.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/process.h"
#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

// A model that takes a while: one F32 tensor of zeros, sparse on the disk.
std::string write_large(const TempDir& folder, std::uint64_t bytes) {
  const std::string path = folder / "large.safetensors";
  std::string header = R"({"w":{"dtype":"F32","shape":[)" + std::to_string(bytes / 4) + R"(],"data_offsets":[0,)" +
                       std::to_string(bytes) + "]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string text(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(text.data(), &size, 8);
  write_file(path, text + header);
  fs::resize_file(path, 8 + size + bytes);
  return path;
}

class Interrupt : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Interrupt, LeavesNothing) {
  const auto [signal, into_folder] = GetParam();
  const TempDir folder;
  const std::string input = write_large(folder, 512 << 20);
  const std::string output = folder / (into_folder ? "out" : "out.safetensors");
  Process process({"convert", input, "-o", output, "--dtype", "bf16", "--threads", "1"}, -1, -1);
  while (process.running() && folder.names().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(process.running()) << "it ended before it could be interrupted";
  ASSERT_EQ(::kill(process.pid(), signal), 0);
  EXPECT_EQ(process.wait(), 128 + signal);
  EXPECT_EQ(folder.names(), std::vector<std::string>({"large.safetensors"}));
}

// As `timeout` sends them: to its child, and at once to the group that the child is in.
TEST(InterruptTwice, AtOnceIsOneInterruption) {
  const TempDir folder;
  const std::string input = write_large(folder, std::uint64_t{2} << 30);
  Process process({"convert", input, "-o", folder / "out.safetensors", "--dtype", "bf16", "--threads", "1"}, -1, -1);
  while (process.running() && folder.names().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(::kill(process.pid(), SIGTERM), 0);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ(process.wait(), 143);
  EXPECT_EQ(folder.names(), std::vector<std::string>({"large.safetensors"}));
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Combine(testing::Values(SIGINT, SIGTERM), testing::Bool()),
                         [](const auto& parameter) {
                           const bool interrupt = std::get<0>(parameter.param) == SIGINT;
                           return std::string(interrupt ? "SIGINT" : "SIGTERM") +
                                  (std::get<1>(parameter.param) ? "Folder" : "File");
                         });

// One member of a tar checkpoint, 64 GiB of zeros that a scan looks through for pickles.
std::string write_large_tar(const TempDir& folder) {
  std::string header(512, '\0');
  header.replace(0, 8, "storages");
  header.replace(124, 12, "777777777777");  // octal
  header.replace(257, 5, "ustar");
  const std::string path = folder / "large.tar";
  write_file(path, header);
  fs::resize_file(path, std::uint64_t{64} << 30);
  return path;
}

class InterruptRead : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(InterruptRead, EndsAtOnceAndLeavesNothing) {
  const TempDir folder;
  write_large_tar(folder);
  write_large(folder, std::uint64_t{64} << 30);
  std::vector<std::string> arguments = GetParam();
  for (std::string& argument : arguments)
    if (argument.starts_with("large.")) argument = folder / argument;
  Process process(arguments, -1, -1, {"TMPDIR=" + folder.path().string()});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ASSERT_TRUE(process.running()) << "it ended before it could be interrupted";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(process.pid(), SIGTERM), 0);
  EXPECT_EQ(process.wait(), 143);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(folder.names(), std::vector<std::string>({"large.safetensors", "large.tar"}));
}

INSTANTIATE_TEST_SUITE_P(Verbs, InterruptRead,
                         testing::Values(std::vector<std::string>{"inspect", "--scan", "large.tar"},
                                         std::vector<std::string>{"inspect", "--scan", "--json", "large.tar"},
                                         std::vector<std::string>{"inspect", "--stats", "large.safetensors"},
                                         std::vector<std::string>{"inspect", "--hash", "large.safetensors"},
                                         std::vector<std::string>{"verify", "large.safetensors", "large.safetensors"}),
                         [](const auto& parameter) { return parameter.param[0] + std::to_string(parameter.index); });

TEST(ClosedPipe, EndsQuietlyWithZero) {
  Pipe out, err;
  out.close_end(0);
  Process process({"inspect", WCONV_TEST_DATA "/models/kjv-qwen2"}, out.ends[1], err.ends[1]);
  EXPECT_EQ(err.drain(), "");
  EXPECT_EQ(process.wait(), 0);
}

TEST(ClosedPipe, DoesNotHideADifference) {
  const TempDir folder;
  const std::string a = write_safetensors(folder / "a.safetensors", {{"w", DType::kF32, {1}, bytes_of({1.0f})}});
  const std::string b = write_safetensors(folder / "b.safetensors", {{"w", DType::kF32, {1}, bytes_of({2.0f})}});
  Pipe out, err;
  out.close_end(0);
  Process process({"verify", a, b}, out.ends[1], err.ends[1]);
  EXPECT_EQ(err.drain(), "");
  EXPECT_EQ(process.wait(), 1);
}

TEST(ClosedPipe, OfStderrDoesNotChangeTheStatus) {
  Pipe err;
  err.close_end(0);
  EXPECT_EQ(Process({"inspect", "/nonexistent/model"}, -1, err.ends[1]).wait(), 66);
}

// What a program prints to a terminal of its own.
std::string on_terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(::grantpt(master), 0);
  EXPECT_EQ(::unlockpt(master), 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(terminal, 0);
  std::string text;
  {
    Process process(arguments, terminal, -1, environment);
    ::close(terminal);
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(master, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    EXPECT_EQ(process.wait(), 0);
  }
  ::close(master);
  return text;
}

bool has_colour(const std::string& text) {
  EXPECT_NE(text.find("tensors"), std::string::npos) << text;
  return text.find("\x1b[") != std::string::npos;
}

TEST(Colour, FollowsTerminalAndEnvironment) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "no pseudo-terminals here: /dev/pts is not mounted";
  ::close(terminal);
  const std::string model = WCONV_TEST_DATA "/models/kjv-qwen2";
  EXPECT_TRUE(has_colour(on_terminal({"inspect", model}, {"TERM=xterm", "NO_COLOR="})));
  EXPECT_FALSE(has_colour(on_terminal({"inspect", model}, {"TERM=xterm", "NO_COLOR=1"})));
  EXPECT_FALSE(has_colour(on_terminal({"inspect", model}, {"TERM=dumb", "NO_COLOR="})));
  EXPECT_FALSE(has_colour(on_terminal({"inspect", model, "--color", "never"}, {"TERM=xterm", "NO_COLOR="})));
  EXPECT_TRUE(has_colour(on_terminal({"--color", "always", "inspect", model}, {"TERM=xterm", "NO_COLOR=1"})));
  EXPECT_FALSE(has_colour(wconv({"inspect", model}, {"TERM=xterm"}).out));
}

}  // namespace
}  // namespace wconv::test
