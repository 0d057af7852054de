// --progress: what a job runner reads on stderr.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/support.h"

namespace wconv::test {
namespace {

const std::string kModel = WCONV_TEST_DATA "/models/kjv-qwen2";

TEST(Progress, JsonLinesEndWithAllBytesDone) {
  const TempDir folder;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"converting", "convert", kModel, "-o", folder / "m.gguf", "-q"},
        {"comparing", "verify", kModel, kModel, "--json"},
        {"reading", "verify", kModel},
        {"reading", "inspect", kModel, "--hash"}}) {
    std::vector<std::string> arguments(command.begin() + 1, command.end());
    arguments.insert(arguments.end(), {"--progress", "json"});
    const RunResult result = wconv(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    nlohmann::json last;
    std::istringstream lines(result.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("wconv: ")) continue;
      last = nlohmann::json::parse(line);
      EXPECT_EQ(last["schema"], 1);
      EXPECT_EQ(last["progress"], command[0]);
      EXPECT_LE(last["done"], last["total"]);
      EXPECT_GE(last["rate"], 0);
    }
    ASSERT_FALSE(last.is_null()) << command[1] << " wrote no line";
    EXPECT_EQ(last["done"], last["total"]) << command[1];
    EXPECT_GT(last["total"], 0) << command[1];
  }
}

TEST(Progress, IsSilentUnlessAskedForWhereStderrIsNoTerminal) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--progress", "none"}}) {
    std::vector<std::string> arguments = {"verify", kModel};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(wconv(arguments).err, "");
  }
}

TEST(Progress, AnotherFormIsRefused) {
  const RunResult result = wconv({"verify", kModel, "--progress", "xml"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("--progress"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace wconv::test
