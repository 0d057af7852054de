#include "earlier_output.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/json_file.h"
#include "core/part_name.h"
#include "core/zstd_file.h"
#include "wconv/error.h"
#include "wconv/manifest.h"

namespace wconv::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors", kSplitEnding = ".gguf";

bool is_part_of(std::string_view stem, std::string_view name, std::string_view ending) {
  const auto part = parse_part_name(name);
  return part && part->stem == stem && name.ends_with(ending);
}

std::string without_ending(const std::string& name, std::string_view ending) {
  return name.substr(0, name.size() - (name.ends_with(ending) ? ending.size() : 0));
}

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, ignored);
       !ignored && entry != fs::directory_iterator(); entry.increment(ignored))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Shards of this stem that the index names; none where it is no index.
std::set<std::string> shards_of_index(const std::string& path, std::string_view stem) {
  std::set<std::string> shards;
  try {
    const auto index = json_in<nlohmann::json>(*File::open(path), {"weight_map"});
    if (!index.is_object() || !index.contains("weight_map")) return shards;
    for (const auto& shard : index["weight_map"])
      if (shard.is_string() && is_part_of(stem, shard.get_ref<const std::string&>(), kEnding)) shards.insert(shard);
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
    const std::string stem = without_ending(write.file_name, kEnding);
    candidates.push_back(stem + ".safetensors.index.json");
    std::error_code ignored;
    if (fs::exists(folder + candidates[0], ignored)) {
      for (const std::string& shard : shards_of_index(folder + candidates[0], stem)) {
        candidates.push_back(shard);
        candidates.push_back(shard + ".zst");  // where they are compressed the index has their plain names
      }
    }
    candidates.push_back(name);
  }
  if (writer.name() == "gguf") {
    const std::string stem = without_ending(write.file_name, kSplitEnding);
    for (const std::string& other : file_names(folder))
      if (is_part_of(stem, without_zst(other), kSplitEnding)) candidates.push_back(other);
    candidates.push_back(name);
  }
  if (writer.name() == "onnx") {
    for (const char* ending : {".data", ".data.zst"}) candidates.push_back(write.file_name + ending);
  }
  candidates.push_back(manifest_name(name, false));
  std::error_code none;
  if (name != write.file_name && !fs::exists(folder + write.file_name, none))  // else it is of that file, which stays
    candidates.push_back(manifest_name(write.file_name, false));
  std::erase(candidates, manifest);
  for (const std::string& candidate : candidates) {
    const bool written = std::any_of(layout.files.begin(), layout.files.end(),
                                     [&](const OutputFile& file) { return file.name == candidate; });
    std::error_code ignored;
    if (!written && fs::is_regular_file(folder + candidate, ignored)) left.push_back(candidate);
  }
  return left;
}

std::vector<std::string> lost_files(const std::string& path, const Layout& layout, const std::string& manifest) {
  std::set<std::string> written = {manifest};
  for (const OutputFile& file : layout.files) written.insert(file.name);
  std::vector<std::string> lost;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(path, ignored); !ignored && entry != fs::recursive_directory_iterator();
       entry.increment(ignored)) {
    std::string name = entry->path().lexically_relative(path).generic_string();
    if (!entry->is_directory(ignored) && !written.contains(name)) lost.push_back(std::move(name));
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

}  // namespace wconv::tool
