// Each exit status of the command line, by something that a user may meet.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/support.h"
#include "wconv/engine.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

class ExitStatus : public testing::Test {
 protected:
  TempDir folder_;
  std::string model_ = write_safetensors(folder_ / "m.safetensors", {{"w", DType::kF32, {2}, bytes_of({1.0f, 2.0f})}});
  std::string other_ = write_safetensors(folder_ / "n.safetensors", {{"w", DType::kF32, {2}, bytes_of({1.0f, 3.0f})}});

  // One line on stderr, and it holds `text`.
  void expect_error(const RunResult& result, int status, const std::string& text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_TRUE(result.err.starts_with("wconv: error: ")) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
};

TEST_F(ExitStatus, DoneIs0) {
  EXPECT_EQ(wconv({"inspect", model_}).status, 0);
  EXPECT_EQ(wconv({"convert", model_, "-o", folder_ / "o.gguf"}).status, 0);
  EXPECT_EQ(wconv({"verify", model_, folder_ / "o.gguf"}).status, 0);
  EXPECT_EQ(wconv({"verify", model_}).status, 0);
}

TEST_F(ExitStatus, DifferentIs1) {
  const RunResult result = wconv({"verify", model_, other_});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("different"), std::string::npos);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(wconv({"verify", model_, other_, "--max-rmse", "1"}).status, 0);
  EXPECT_EQ(wconv({"verify", model_, other_, "--keys"}).status, 0);
}

TEST_F(ExitStatus, WrongUsageIs2) {
  expect_error(wconv({}), 2, "no command");
  expect_error(wconv({"inspct", model_}), 2, "did you mean 'inspect'?");
  expect_error(wconv({"inspect", "--hsh", model_}), 2, "unknown option '--hsh'; did you mean '--hash'?");
  expect_error(wconv({"--thread", "3", "inspect", model_}), 2, "did you mean '--threads'?");
  expect_error(wconv({"inspect"}), 2, "MODEL is required; see wconv inspect --help");
  expect_error(wconv({"convert", model_}), 2, "--output is required");
  expect_error(wconv({"verify", model_, other_, model_}), 2, "unexpected argument");
  expect_error(wconv({"inspect", model_, "-q", "-v"}), 2, "--quiet");
  expect_error(wconv({"--threads", "many", "inspect", model_}), 2, "--threads");
  expect_error(wconv({"--max-memory", "much", "inspect", model_}), 2, "--max-memory: 'much' is no size");
  expect_error(wconv({"--color", "red", "inspect", model_}), 2, "auto,always,never");
  expect_error(wconv({"convert", model_, "-o", folder_ / "o.xyz"}), 2, ".xyz");
  expect_error(wconv({"convert", model_, "-o", folder_ / "o.gguf", "--dtype", "f99"}), 2, "f99");
  expect_error(wconv({"convert", model_, "-o", folder_ / "o.gguf", "--include", "nothing*"}), 2, "nothing*");
  expect_error(wconv({"convert", model_, "-o", other_}), 2, "--force");
  for (const char* number : {"x", "-1", "inf", "nan", "1e400", "1x"}) {
    const RunResult rmse = wconv({"verify", model_, other_, "--max-rmse", number});
    expect_error(rmse, 2, std::string("--max-rmse: '") + number + "' is not a finite number from 0 on");
    EXPECT_LT(rmse.err.size(), 120u);
  }
  expect_error(wconv({"verify", model_, other_, "--min-cosine", "nan"}), 2, "'nan' is not a number from -1 to 1");
  expect_error(wconv({"verify", model_, other_, "--min-cosine", "2"}), 2, "'2' is not a number from -1 to 1");
  expect_error(wconv({"inspect", "-"}), 2, "'-'");
  expect_error(wconv({"convert", model_, "-o", "-"}), 2, "'-'");
  expect_error(wconv({"verify", model_, "--keys"}), 2, "--keys");
  expect_error(wconv({"inspect", model_}, {"WCONV_KERNELS=abacus"}), 2, "abacus");
}

TEST_F(ExitStatus, DamagedIs65) {
  fs::resize_file(model_, fs::file_size(model_) - 1);
  expect_error(wconv({"inspect", model_}), 65, model_);
  expect_error(wconv({"convert", model_, "-o", folder_ / "o.gguf"}), 65, model_);
  expect_error(wconv({"verify", model_, other_}), 65, model_);
  EXPECT_EQ(folder_.names(), std::vector<std::string>({"m.safetensors", "n.safetensors"}));
}

TEST_F(ExitStatus, UnsupportedIs65) {
  const std::string path =
      write_safetensors(folder_ / "u.safetensors", {{"w", DType::kU16, {1}, bytes_of<std::uint16_t>({1})}});
  expect_error(wconv({"convert", path, "-o", folder_ / "o.gguf"}), 65, "U16");
}

TEST_F(ExitStatus, MissingIs66) {
  expect_error(wconv({"inspect", folder_ / "none"}), 66, "none");
  write_file(folder_ / "lfs.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') + "\nsize 12345\n");
  expect_error(wconv({"inspect", folder_ / "lfs.safetensors"}), 66, "git lfs pull");
  expect_error(wconv({"verify", model_, "--manifest"}), 66, "m.safetensors.wconv.json");
}

TEST_F(ExitStatus, FailedOutputIs74) {
  const RunResult result = run({"sh", "-c", "exec \"$@\" >/dev/full", "sh", WCONV_BINARY, "inspect", model_});
  expect_error(result, 74, "No space left");
  const RunResult closed = run({"sh", "-c", "exec \"$@\" >&-", "sh", WCONV_BINARY, "inspect", model_});
  expect_error(closed, 74, "standard output");
}

TEST_F(ExitStatus, AFileSizeLimitIs74AndLeavesNothing) {
  const RunResult result = run({"prlimit", "--fsize=4096", WCONV_BINARY, "convert", WCONV_TEST_DATA "/models/kjv-qwen2",
                                "-o", folder_ / "o.gguf"});
  expect_error(result, 74, "o.gguf");
  EXPECT_EQ(folder_.names(), std::vector<std::string>({"m.safetensors", "n.safetensors"}));
}

TEST_F(ExitStatus, BusyIs75) {
  const Output other_run(folder_ / "o.gguf", false, false);
  expect_error(wconv({"convert", model_, "-o", folder_ / "o.gguf"}), 75, "another run");
}

TEST_F(ExitStatus, AFullStderrDoesNotChangeIt) {
  EXPECT_EQ(run({"sh", "-c", "exec \"$@\" 2>/dev/full", "sh", WCONV_BINARY, "inspect", folder_ / "none"}).status, 66);
  EXPECT_EQ(run({"sh", "-c", "exec \"$@\" 2>&-", "sh", WCONV_BINARY, "inspect", folder_ / "none"}).status, 66);
}

// Were stdout closed, the first file that wconv opens would become it, and the report would be written into the model.
TEST_F(ExitStatus, ClosedStreamsDoNotReachTheOutput) {
  ASSERT_EQ(wconv({"convert", model_, "-o", folder_ / "open.gguf"}).status, 0);
  run({"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", WCONV_BINARY, "convert", model_, "-o", folder_ / "closed.gguf"});
  EXPECT_EQ(read_file(folder_ / "closed.gguf"), read_file(folder_ / "open.gguf"));
}

}  // namespace
}  // namespace wconv::test
