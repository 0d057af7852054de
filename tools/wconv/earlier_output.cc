#include "earlier_output.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/json_file.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

constexpr std::string_view kEnding = ".safetensors";

// "STEM-00001-of-00003.safetensors"
bool is_shard_of(std::string_view stem, std::string_view name) {
  constexpr std::string_view kForm = "-#####-of-#####.safetensors";
  if (name.size() != stem.size() + kForm.size() || !name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return std::equal(name.begin(), name.end(), kForm.begin(),
                    [](char c, char form) { return form == '#' ? c >= '0' && c <= '9' : c == form; });
}

// Shards of this stem that the index names; none where it is no index.
std::set<std::string> shards_of_index(const std::string& path, std::string_view stem) {
  std::set<std::string> shards;
  try {
    const auto index = json_in<nlohmann::json>(*File::open(path), {"weight_map"});
    if (!index.is_object() || !index.contains("weight_map")) return shards;
    for (const auto& shard : index["weight_map"])
      if (shard.is_string() && is_shard_of(stem, shard.get_ref<const std::string&>())) shards.insert(shard);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kUsage) throw;
  }
  return shards;
}

}  // namespace

std::vector<std::string> earlier_output(const std::string& folder, const FormatWriter& writer,
                                        const WriteOptions& write, const std::string& name, const Layout& layout,
                                        const std::string& manifest) {
  if (write.folder) return {};
  std::vector<std::string> candidates, left;
  if (writer.name() == "safetensors") {
    const std::string& plain = write.file_name;
    const std::string stem = plain.substr(0, plain.size() - (plain.ends_with(kEnding) ? kEnding.size() : 0));
    candidates.push_back(stem + ".safetensors.index.json");
    std::error_code ignored;
    if (std::filesystem::exists(folder + candidates[0], ignored)) {
      for (const std::string& shard : shards_of_index(folder + candidates[0], stem)) {
        candidates.push_back(shard);
        candidates.push_back(shard + ".zst");  // where they are compressed the index has their plain names
      }
    }
    candidates.push_back(name);
  }
  if (writer.name() == "onnx") {
    for (const char* ending : {".data", ".data.zst"}) candidates.push_back(write.file_name + ending);
  }
  if (!manifest.empty()) candidates.push_back(manifest);
  for (const std::string& candidate : candidates) {
    const bool written = std::any_of(layout.files.begin(), layout.files.end(),
                                     [&](const OutputFile& file) { return file.name == candidate; });
    std::error_code ignored;
    if (!written && std::filesystem::is_regular_file(folder + candidate, ignored)) left.push_back(candidate);
  }
  return left;
}

}  // namespace wconv::tool
