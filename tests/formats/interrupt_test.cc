// What only reads ends when a signal asks for it, and does not take it for damage.
#include "wconv/interrupt.h"

#include <gtest/gtest.h>

#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/scan.h"

namespace wconv {
namespace {

std::atomic<int> g_signal{0};

class InterruptedReads : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    g_signal = 15;
    interrupt_reads_on(&g_signal);
  }
  void TearDown() override { interrupt_reads_on(nullptr); }
  static std::string path() { return std::string(WCONV_TEST_DATA "/") + GetParam(); }
};

void expect_interrupted(const auto& work) {
  try {
    work();
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted) << error.what();
  }
}

TEST_P(InterruptedReads, EndOpening) {
  expect_interrupted([] { open_model(path(), {}); });
  g_signal = 0;
  EXPECT_FALSE(open_model(path(), {}).tensors.empty());
}

TEST_P(InterruptedReads, EndScanning) {
  expect_interrupted([] { scan_model(path()); });
  g_signal = 0;
  EXPECT_GT(scan_model(path()).files, 0u);
}

TEST_P(InterruptedReads, EndReadingATensor) {
  g_signal = 0;
  const Model model = open_model(path(), {});
  g_signal = 2;
  expect_interrupted([&] { test::read_all(model.tensors.at(0)); });
}

INSTANTIATE_TEST_SUITE_P(Formats, InterruptedReads,
                         testing::Values("models/kjv-qwen2", "cases/A03/zip_p2.pth", "cases/A03/legacy_p2.pth",
                                         "cases/A04/tar.pth", "cases/C11/m-00001-of-00002.gguf",
                                         "formats/onnx/golden/types.onnx"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace wconv
