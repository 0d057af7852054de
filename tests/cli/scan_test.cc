// inspect --scan: exit status, text, JSON and SARIF.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace wconv::test {
namespace {

using Json = nlohmann::ordered_json;

const std::string kModel = WCONV_TEST_DATA "/models/kjv-qwen2";
const std::string kBad = WCONV_TEST_DATA "/cases/A16/stack_global.pkl";
const std::string kHidden = WCONV_TEST_DATA "/cases/A15/two_data_pkl.pth";

TEST(Scan, DataIs0AndEverythingElse65) {
  EXPECT_EQ(wconv({"inspect", "--scan", kModel}).status, 0);
  EXPECT_EQ(wconv({"inspect", "--scan", kHidden}).status, 65);
  EXPECT_EQ(wconv({"inspect", kHidden}).status, 0) << "it opens without the scan";
  const RunResult bad = wconv({"inspect", "--scan", kBad});
  EXPECT_EQ(bad.status, 65);
  EXPECT_NE(bad.out.find("danger  os.system"), std::string::npos) << bad.out;
  EXPECT_EQ(wconv({"inspect", "--scan", kModel, kHidden, kModel}).status, 65);
}

TEST(Scan, OneJsonDocumentEvenWhereItIsNoModel) {
  for (const std::string& path : {kBad, kHidden, kModel}) {
    const RunResult result = wconv({"--json", "inspect", "--scan", path});
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["scan"]["verdict"], path == kModel ? "data" : "danger");
    EXPECT_EQ(json.contains("error"), path == kBad);
    for (const Json& item : json["scan"]["items"]) {
      EXPECT_EQ(item.size(), 8u);
      if (item["verdict"] == "danger") {
        EXPECT_EQ(item["what"], "os.system");
      }
    }
  }
}

TEST(Scan, SarifIsWrittenOnceForAllModels) {
  const TempDir dir;
  const std::string path = dir / "x.sarif";
  EXPECT_EQ(wconv({"inspect", "--scan", "--report", path, kModel, kHidden, kBad}).status, 65);
  const Json sarif = Json::parse(read_file(path));
  EXPECT_EQ(sarif["version"], "2.1.0");
  const Json& run = sarif["runs"].at(0);
  EXPECT_EQ(run["tool"]["driver"]["name"], "wconv");
  ASSERT_EQ(run["results"].size(), 2u);
  for (const Json& result : run["results"]) {
    EXPECT_EQ(result["level"], "error");
    EXPECT_EQ(result["ruleId"], "pickle-global");
    EXPECT_TRUE(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].is_string());
  }
  EXPECT_EQ(wconv({"inspect", "--scan", "--report", path, kModel}).status, 2) << "it exists";
  EXPECT_EQ(wconv({"inspect", "--scan", "--report", path, kModel, "--force"}).status, 0);
  EXPECT_EQ(Json::parse(read_file(path))["runs"][0]["results"], Json::array());
  EXPECT_EQ(wconv({"inspect", "--report", path, kModel}).status, 2);
  EXPECT_EQ(wconv({"inspect", "--scan", "--report", dir / "x.html", kModel}).status, 2);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x.sarif"});
}

TEST(Scan, OfAGitLfsPointerMissesTheFile) {
  EXPECT_EQ(wconv({"inspect", "--scan", WCONV_TEST_DATA "/cases/B14/lfs_pointer.safetensors"}).status, 66);
}

TEST(Scan, AReportThatCannotBeWrittenIsSaidFirst) {
  const TempDir dir;
  const std::string report = dir / "x.sarif";
  write_file(report, "");
  const RunResult result = wconv({"inspect", "--scan", "--report", report, kBad});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace wconv::test
