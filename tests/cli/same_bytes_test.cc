// What an output must not depend on: locale, time zone, umask, working directory, where the model lies, clock.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "formats/pytorch/build.h"
#include "support/support.h"

namespace wconv::test {
namespace {

namespace fs = std::filesystem;

using Tree = std::map<std::string, std::string>;

Tree tree_of(const std::string& folder) {
  Tree tree;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      tree[entry.path().lexically_relative(folder).string()] = read_file(entry.path().string());
  return tree;
}

void make_inputs(const std::string& folder) {
  fs::create_directories(folder);
  write_safetensors(folder + "/a.safetensors",
                    {{"gewicht.\u00e4", DType::kF32, {3}, bytes_of({1.5f, -0.0f, 1e-40f})},
                     {"I", DType::kF32, {1}, bytes_of({1234567.875f})},
                     {"i", DType::kF32, {1}, bytes_of({0.1f})}},
                    {{"note", "1,5 \u00fc"}});
  write_file(folder + "/b.pth", checkpoint(dict_op({{"w", tensor_op()}, {"step", "G?\xb9\x99\x99\x99\x99\x99\x9a"}})));
  fs::copy(WCONV_TEST_DATA "/formats/onnx/golden/lists.onnx", folder + "/c.onnx");
}

// Converts into `out`, which is relative to the working directory `from`.
Tree convert_all(const std::string& from, const std::string& in, const std::string& out,
                 const std::vector<std::string>& environment) {
  fs::create_directories(fs::path(from) / out);
  for (const std::vector<std::string>& conversion :
       std::vector<std::vector<std::string>>{{"a.safetensors", "a.gguf", "--set", "x.y:f32=0.1"},
                                             {"a.safetensors", "a.pth"},
                                             {"b.pth", "b.safetensors"},
                                             {"b.pth", "folder", "--shard-size", "10"},
                                             {"c.onnx", "c.onnx", "--dtype", "f16", "--on-overflow", "inf"},
                                             {"a.safetensors", "z.safetensors.zst"}}) {
    std::vector<std::string> command = {"env", "-C", from};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {WCONV_BINARY, "convert", in + "/" + conversion[0], "-o", out + "/" + conversion[1]});
    command.insert(command.end(), conversion.begin() + 2, conversion.end());
    const RunResult result = run(command);
    EXPECT_EQ(result.status, 0) << result.err;
  }
  return tree_of(from + "/" + out);
}

TEST(SameBytes, WhereverAndUnderWhateverEnvironmentItRuns) {
  const TempDir here, there;
  make_inputs(here / "in");
  const Tree first = convert_all(here.path().string(), "in", "out", {"LC_ALL=C", "TZ=UTC"});
  ASSERT_GE(first.size(), 12u) << "six outputs and their manifests";
  make_inputs(there / "deep/er/in");
  fs::last_write_time(there / "deep/er/in/a.safetensors", fs::file_time_type::clock::now() - std::chrono::hours(9999));
  EXPECT_EQ(first, convert_all(there / "deep", "../deep/er/in", "out",
                               {"LC_ALL=de_DE.UTF-8", "LANG=tr_TR.UTF-8", "TZ=Pacific/Kiritimati", "TERM=dumb"}));
  EXPECT_EQ(first, convert_all("/", there / "deep/er/in", there / "absolute", {"LC_ALL=tr_TR.UTF-8", "COLUMNS=3"}));
  EXPECT_EQ(first, convert_all(here.path().string(), "in", "again", {"-i", "SOURCE_DATE_EPOCH=1", "USER=x"}));
}

}  // namespace
}  // namespace wconv::test
