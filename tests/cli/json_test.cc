// The documents of --json: one line each, with these keys in this order.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/support.h"

namespace wconv::test {
namespace {

using Json = nlohmann::ordered_json;
using Keys = std::vector<std::string>;

const std::string kModel = WCONV_TEST_DATA "/models/kjv-qwen2";

Keys keys_of(const Json& object) {
  Keys keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// The one document on stdout.
Json document(const RunResult& result) {
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["schema"], 1);
  return json;
}

TEST(InspectJson, HasTheDocumentedKeys) {
  const RunResult result = wconv({"--json", "inspect", kModel});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = document(result);
  EXPECT_EQ(keys_of(json),
            Keys({"schema", "path", "format", "files", "architecture", "metadata", "tensors", "totals", "findings"}));
  EXPECT_EQ(json["path"], kModel);
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["architecture"], "qwen2");
  EXPECT_EQ(keys_of(json["files"][0]), Keys({"path", "bytes"}));
  EXPECT_EQ(json["files"][0]["bytes"], 11555048);
  EXPECT_EQ(json["metadata"], Json({{"format", "pt"}}));
  EXPECT_EQ(json["totals"], Json({{"tensors", 74}, {"parameters", 5773568}, {"bytes", 11547136}}));
  ASSERT_EQ(json["tensors"].size(), 74u);
  const Json& tensor = json["tensors"][0];
  EXPECT_EQ(keys_of(tensor), Keys({"name", "dtype", "shape", "bytes", "file", "offset"}));
  EXPECT_EQ(tensor["dtype"], "BF16");
  EXPECT_EQ(tensor["file"], kModel + "/model.safetensors");
}

TEST(InspectJson, StatsAndHashAddTheirKeys) {
  const TempDir folder;
  const std::string path =
      write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {2}, bytes_of({1.0f, 3.0f})}});
  const Json json = document(wconv({"inspect", path, "--stats", "--hash", "--json"}));
  EXPECT_EQ(keys_of(json["files"][0]), Keys({"path", "bytes", "sha256"}));
  const Json& tensor = json["tensors"][0];
  EXPECT_EQ(keys_of(tensor), Keys({"name", "dtype", "shape", "bytes", "file", "offset", "sha256", "stats"}));
  EXPECT_EQ(tensor["stats"]["mean"], 2.0);
  EXPECT_EQ(tensor["stats"]["sd"], 1.0);
  EXPECT_EQ(keys_of(tensor["stats"]),
            Keys({"count", "min", "max", "mean", "sd", "zeros", "nan", "infinite", "percentiles"}));
}

TEST(InspectJson, IntegersAreExact) {
  const TempDir folder;
  const std::string path = folder / "m.gguf";
  ASSERT_EQ(wconv({"convert", write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {1}, bytes_of({1.0f})}}),
                   "-o", path, "--set", "a.big:u64=18446744073709551615", "--set", "a.low:i64=-9223372036854775808"})
                .status,
            0);
  const RunResult result = wconv({"--json", "inspect", path});
  EXPECT_NE(result.out.find("18446744073709551615"), std::string::npos);
  EXPECT_NE(result.out.find("-9223372036854775808"), std::string::npos);
}

TEST(InspectJson, NamesSurviveTheirEscapes) {
  const TempDir folder;
  const std::string name = "a\x1b\x7f\xc2\x9b\xc3\xa9\xe2\x80\xae\xe2\x82\xac\xe2\x81\xa6\xf0\x9f\x98\x80";
  const std::string path = write_safetensors(folder / "m.safetensors", {{name, DType::kF32, {1}, bytes_of({1.0f})}});
  const RunResult result = wconv({"--json", "inspect", path});
  EXPECT_EQ(document(result)["tensors"][0]["name"], name);
  for (const char* hidden : {"\x1b", "\x7f", "\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6"}) {
    EXPECT_EQ(result.out.find(hidden), std::string::npos);
  }
}

TEST(InspectJson, SeveralModelsGiveOneDocumentALineInTheirOrder) {
  const TempDir folder;
  const std::vector<TensorSpec> tensors = {{"w", DType::kF32, {1}, bytes_of({1.0f})}};
  const std::string b = write_safetensors(folder / "b.safetensors", tensors),
                    a = write_safetensors(folder / "a.safetensors", tensors);
  const RunResult result = wconv({"--json", "inspect", b, folder / "none", a});
  EXPECT_EQ(result.status, 66);
  std::istringstream lines(result.out);
  std::vector<Json> documents;
  for (std::string line; std::getline(lines, line);) documents.push_back(Json::parse(line));
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[0]["path"], b);
  EXPECT_EQ(documents[1]["error"]["code"], "missing");
  EXPECT_EQ(documents[2]["path"], a);
}

const Keys kConvertKeys = {"schema",  "inputs",   "outputs", "tensors",
                           "skipped", "warnings", "seconds", "peak_memory_bytes"};

TEST(ConvertJson, HasTheDocumentedKeys) {
  const TempDir folder;
  const std::string output = folder / "out.gguf";
  const RunResult result = wconv({"--json", "convert", kModel, "-o", output, "--exclude", "*.bias"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = document(result);
  EXPECT_EQ(keys_of(json), kConvertKeys);
  EXPECT_EQ(keys_of(json["inputs"][0]), Keys({"path", "bytes", "sha256"}));
  EXPECT_EQ(json["outputs"][0]["path"], output);
  EXPECT_EQ(json["outputs"][0]["bytes"], std::filesystem::file_size(output));
  EXPECT_EQ(json["outputs"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["tensors"], 74 - 18);
  EXPECT_EQ(json["skipped"].size(), 18u);
  EXPECT_EQ(json["warnings"], Json::array());
  EXPECT_GT(json["peak_memory_bytes"], 0);
}

TEST(ConvertJson, WithoutDigestsTheyAreNull) {
  const TempDir folder;
  for (const std::string option : {"--no-manifest", "--dry-run"}) {
    const Json json = document(wconv({"--json", "convert", kModel, "-o", folder / ("out" + option + ".gguf"), option}));
    EXPECT_EQ(keys_of(json), kConvertKeys) << option;
    EXPECT_EQ(keys_of(json["outputs"][0]), Keys({"path", "bytes", "sha256"})) << option;
    EXPECT_TRUE(json["outputs"][0]["sha256"].is_null()) << option;
  }
  EXPECT_EQ(folder.names(), Keys({"out--no-manifest.gguf"}));
}

TEST(ConvertJson, ADryRunPlansTheExactSizes) {
  const TempDir folder;
  for (const std::string name : {"out.safetensors", "out.gguf", "out"}) {
    const Json planned = document(wconv({"--json", "convert", kModel, "-o", folder / name, "--dry-run"}));
    const Json written = document(wconv({"--json", "convert", kModel, "-o", folder / name}));
    ASSERT_EQ(planned["outputs"].size(), written["outputs"].size());
    for (std::size_t i = 0; i < written["outputs"].size(); ++i) {
      EXPECT_EQ(planned["outputs"][i]["path"], written["outputs"][i]["path"]);
      EXPECT_EQ(planned["outputs"][i]["bytes"], written["outputs"][i]["bytes"]);
    }
  }
}

TEST(ConvertJson, ADryRunSaysThatTheOutputExists) {
  const TempDir folder;
  const auto dry = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--json", "convert", kModel, "-o", folder / "out", "--dry-run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return document(wconv(arguments))["warnings"];
  };
  std::filesystem::create_directory(folder / "out");
  EXPECT_EQ(dry({}), Json::array());
  test::write_file(folder / "out/model.safetensors", "x");
  EXPECT_EQ(dry({}), Json::array({(folder / "out") + ": exists; only --force would replace it"}));
  EXPECT_EQ(dry({"--force"}), Json::array());
}

class VerifyJson : public testing::Test {
 protected:
  TempDir folder_;
  std::string a_ = write_safetensors(folder_ / "a.safetensors", {{"same", DType::kF32, {1}, bytes_of({5.0f})},
                                                                 {"w", DType::kF32, {2}, bytes_of({1.0f, 2.0f})},
                                                                 {"x", DType::kF32, {1}, bytes_of({1.0f})}});
  std::string b_ = write_safetensors(folder_ / "b.safetensors", {{"same", DType::kF32, {1}, bytes_of({5.0f})},
                                                                 {"w", DType::kF32, {2}, bytes_of({1.0f, 4.0f})},
                                                                 {"y", DType::kF32, {1}, bytes_of({1.0f})}});
};

TEST_F(VerifyJson, HasTheDocumentedKeys) {
  const RunResult result = wconv({"verify", a_, b_, "--json"});
  EXPECT_EQ(result.status, 1);
  const Json json = document(result);
  EXPECT_EQ(keys_of(json), Keys({"schema", "equal", "reference", "candidate", "tensors", "missing", "unexpected",
                                 "explanations", "worst"}));
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["reference"], a_);
  EXPECT_EQ(json["candidate"], b_);
  EXPECT_EQ(json["missing"], Json({"x"}));
  EXPECT_EQ(json["unexpected"], Json({"y"}));
  EXPECT_EQ(json["worst"], "w");
  ASSERT_EQ(json["tensors"].size(), 2u);
  const Json& same = json["tensors"][0];
  const Json& w = json["tensors"][1];
  for (const char* key : {"name", "status", "dtype", "shape", "max_abs", "rmse", "cosine", "snr_db"}) {
    EXPECT_TRUE(w.contains(key)) << key;
  }
  EXPECT_EQ(same["status"], "equal");
  EXPECT_EQ(w["status"], "different");
  EXPECT_EQ(w["dtype"], Json({"F32", "F32"}));
  EXPECT_EQ(w["max_abs"], 2.0);
}

TEST_F(VerifyJson, ANanOnOneSideIsNoDifferenceOfZero) {
  const TempDir folder;
  const auto write = [&](const std::string& name, float value) {
    return write_safetensors(folder / name, {{"w", DType::kF32, {2}, bytes_of({value, 1.0f})}});
  };
  const RunResult result =
      wconv({"verify", write("a.safetensors", 0), write("b.safetensors", std::nanf("")), "--json"});
  EXPECT_EQ(result.status, 1);
  const Json json = document(result), w = json["tensors"][0];
  EXPECT_EQ(w["max_abs"], "inf");
  EXPECT_EQ(w["cosine"], "nan");
  EXPECT_EQ(w["snr_db"], "-inf");
  EXPECT_EQ(w["nonfinite_mismatches"], 1);
  EXPECT_EQ(w["nans"], Json({0, 1}));
  EXPECT_EQ(json["explanations"].size(), 1u);
}

TEST_F(VerifyJson, OfOneModelSaysWhetherItIsWhole) {
  const RunResult result = wconv({"verify", a_, "--json"});
  EXPECT_EQ(result.status, 0);
  const Json json = document(result);
  EXPECT_EQ(json["equal"], true);
  EXPECT_TRUE(json["candidate"].is_null());
  for (const char* key : {"tensors", "missing", "unexpected", "worst", "checked", "problems"})
    EXPECT_TRUE(json.contains(key)) << key;
}

TEST(ErrorJson, NamesCodeMessageFileTensorAndOffset) {
  const TempDir folder;
  const std::string path =
      write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {2}, bytes_of({1.0f, 2.0f})}});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const RunResult result = wconv({"inspect", path, "--json"});
  EXPECT_EQ(result.status, 65);
  const Json json = document(result);
  EXPECT_EQ(keys_of(json), Keys({"schema", "error"}));
  const Json& error = json["error"];
  EXPECT_EQ(error["code"], "corrupt");
  EXPECT_EQ(error["file"], path);
  EXPECT_NE(result.err.find(error["message"].get<std::string>()), std::string::npos) << "the same text on stderr";
}

TEST(ErrorJson, OfAnOverflowNamesFileAndTensor) {
  const TempDir folder;
  const std::string path = write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {1}, bytes_of({1e30f})}});
  const RunResult result = wconv({"convert", path, "-o", folder / "o.safetensors", "--dtype", "f16", "--json"});
  EXPECT_EQ(result.status, 65);
  const Json error = document(result)["error"];
  EXPECT_EQ(error["code"], "unsupported");
  EXPECT_EQ(error["file"], path);
  EXPECT_EQ(error["tensor"], "w");
  EXPECT_TRUE(result.err.starts_with("wconv: error: " + path + ": tensor 'w': 1 of 1 values do not fit")) << result.err;
  EXPECT_EQ(folder.names().size(), 1u);
}

TEST(ConvertJson, ADryRunSaysThatValuesAreNotChecked) {
  const TempDir folder;
  const std::string path = write_safetensors(folder / "m.safetensors", {{"w", DType::kF32, {1}, bytes_of({1e30f})}});
  const std::vector<std::string> common = {"convert", path, "-o", folder / "o.safetensors", "--dry-run", "--dtype"};
  const auto dry = [&](const std::string& dtype, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = common;
    arguments.push_back(dtype);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return wconv(arguments);
  };
  const std::string text = "a dry run checks no values: those of 1 tensor are cast to a type of less range";
  const RunResult narrow = dry("f16", {});
  EXPECT_EQ(narrow.status, 0);
  EXPECT_NE(narrow.err.find(text), std::string::npos) << narrow.err;
  EXPECT_EQ(document(dry("f16", {"--json"}))["warnings"].size(), 1u);
  EXPECT_EQ(dry("f64", {}).err, "");
}

TEST(ErrorJson, IsWrittenForAWrongCommandLineToo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--json"},
                                             {"--json", "inspct"},
                                             {"inspect", "--json"},
                                             {"inspect", "x", "--nosuch", "--json"},
                                             {"--max-memory", "much", "--json", "inspect", "x"},
                                             {"convert", "x", "--json"}}) {
    const RunResult result = wconv(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(document(result)["error"]["code"], "usage");
  }
}

}  // namespace
}  // namespace wconv::test
