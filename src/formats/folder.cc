#include "formats/folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/json_file.h"
#include "core/list_text.h"
#include "core/model_path.h"
#include "core/part_name.h"
#include "core/zstd_file.h"
#include "wconv/error.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSplitEnding = ".gguf";  // whose reader finds the other parts by itself

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  if (error) throw Error(ErrorCode::kIo, fmt::format("cannot list the folder: {}", error.message())).in_file(folder);
  std::sort(names.begin(), names.end());
  return names;
}

// "model.safetensors" for model.safetensors.zst
bool is_weight_file(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kEndings = {
      ".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".gguf", ".onnx", ".h5", ".onnx_data", ".msgpack"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view e) { return name.ends_with(e); }) ||
         name.ends_with(".index.json");
}

// Text files that travel with the weights. Programs (.py) do not.
bool is_side_file(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kEndings = {".json", ".txt",      ".model", ".jinja",
                                                               ".md",   ".tiktoken", ".vocab"};
  if (is_weight_file(name) || name.starts_with('.') || name.ends_with("wconv.json")) return false;
  return name.starts_with("LICENSE") || name == "NOTICE" ||
         std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

// `prefix` is "" or "1_Pooling/".
void add_side_files_of(Model& model, const std::string& folder, const std::string& prefix) {
  for (const std::string& name : file_names((fs::path(folder) / prefix).string())) {
    if (!is_side_file(name)) continue;
    const std::string path = (fs::path(folder) / prefix / name).string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      model.findings.push_back(
          {Severity::kWarning, "link-nowhere",
           fmt::format("{}{} is a link to a file that is not there: the download did not end; left out", prefix,
                       printable(name))});
      continue;
    }
    if (!stays_in_model(folder, path)) {
      model.findings.push_back(
          {Severity::kWarning, "link-outside",
           fmt::format("{}{} is a link that leaves the model's folder; left out", prefix, printable(name))});
      continue;
    }
    model.side_files.push_back({prefix + name, File::open(path)});
  }
}

// Folders of the model's folder that hold a part of it, with a config.json (sentence-transformers: 1_Pooling).
std::vector<std::string> parts_of(const std::string& folder) {
  std::vector<std::string> parts;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored); !ignored && entry != fs::directory_iterator();
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const bool inside = !name.starts_with('.') && stays_in_model(folder, entry->path().string());
    if (inside && fs::exists(entry->path() / "config.json", ignored)) parts.push_back(name);
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

void add_side_files(Model& model, const std::string& folder) {
  add_side_files_of(model, folder, "");
  for (const std::string& part : parts_of(folder)) {
    add_side_files_of(model, folder, part + "/");
    const auto names = file_names((fs::path(folder) / part).string());
    if (std::any_of(names.begin(), names.end(), is_weight_file)) {
      model.findings.push_back(
          {Severity::kWarning, "subfolder",
           fmt::format("the folder '{}' holds weights of its own; convert it by itself", printable(part))});
    }
  }
  for (const SideFile& side : model.side_files) {
    if (side.name != "config.json") continue;
    try {
      const json config = json_in<json>(*side.file, {"model_type"});
      if (const auto type = config.find("model_type"); type != config.end() && type->is_string()) {
        model.architecture = type->get<std::string>();
      }
    } catch (const Error& error) {
      model.findings.push_back({Severity::kWarning, "config", error.message()});
    }
  }
}

void merge_shard(Model& model, Model shard, std::map<std::string, std::string>& shard_of, const std::string& name) {
  for (const Tensor& tensor : shard.tensors) {
    const auto [entry, inserted] = shard_of.emplace(tensor.info.name, name);
    if (!inserted) {
      fail(ErrorCode::kCorrupt, "tensor '{}' stands in two shards: {} and {}", tensor.info.name, entry->second, name);
    }
  }
  if (model.format.empty()) {
    model.format = shard.format;
    model.metadata = std::move(shard.metadata);
  } else {
    add_metadata(model, shard.metadata, name);
  }
  std::move(shard.files.begin(), shard.files.end(), std::back_inserter(model.files));
  std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(model.tensors));
  std::move(shard.checks.begin(), shard.checks.end(), std::back_inserter(model.checks));
  std::move(shard.idle_checks.begin(), shard.idle_checks.end(), std::back_inserter(model.idle_checks));
  std::move(shard.refused.begin(), shard.refused.end(), std::back_inserter(model.refused));
  std::move(shard.left_out.begin(), shard.left_out.end(), std::back_inserter(model.left_out));
  for (Finding& finding : shard.findings) {
    finding.message = name + ": " + finding.message;
    model.findings.push_back(std::move(finding));
  }
}

constexpr std::size_t kNamed = 5;  // in one message
std::string join_names(const std::vector<std::string>& names) { return quoted_names(names, kNamed); }

// tensor → shard, with every name checked. Throws naming what is wrong.
std::map<std::string, std::string> read_weight_map(const json& index) {
  if (!index.is_object() || !index.contains("weight_map")) fail(ErrorCode::kCorrupt, "the index has no 'weight_map'");
  const json& weight_map = index["weight_map"];
  if (!weight_map.is_object()) fail(ErrorCode::kCorrupt, "'weight_map' is {}, not an object", weight_map.type_name());
  std::map<std::string, std::string> map;
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (!shard.is_string()) fail(ErrorCode::kCorrupt, "'weight_map' names no file for tensor '{}'", tensor);
    check_relative_path(shard.get<std::string>(), "weight_map");
    map.emplace(tensor, shard.get<std::string>());
  }
  if (map.empty()) fail(ErrorCode::kCorrupt, "'weight_map' is empty");
  return map;
}

void compare_with_index(Model& model, const json& index, const std::map<std::string, std::string>& weight_map,
                        const std::map<std::string, std::string>& shard_of) {
  std::vector<std::string> missing, extra;
  std::string moved_text;
  std::size_t moved = 0;
  for (const auto& [tensor, shard] : weight_map) {
    const auto found = shard_of.find(tensor);
    if (found == shard_of.end()) {
      missing.push_back(tensor);
    } else if (found->second != shard) {
      if (++moved <= kNamed) {
        moved_text += fmt::format("{}'{}' (named in {}, found in {})", moved == 1 ? "" : ", ", printable(tensor),
                                  printable(shard), printable(found->second));
      }
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (!weight_map.contains(tensor)) extra.push_back(tensor);
  }
  if (!missing.empty())
    fail(ErrorCode::kCorrupt, "the index names tensors that no shard holds: {}", join_names(missing));
  const auto warn = [&](std::string code, std::string message) {
    model.findings.push_back({Severity::kWarning, std::move(code), std::move(message)});
  };
  if (moved > kNamed) moved_text += fmt::format(" and {} more", moved - kNamed);
  if (moved > 0) warn("wrong-shard", "the index names the wrong shard for " + moved_text);
  if (!extra.empty())
    warn("not-in-index", fmt::format("shards hold tensors that the index does not name: {}", join_names(extra)));
  std::uint64_t total = 0;
  for (const Tensor& tensor : model.tensors) total += tensor.data->size_bytes();
  const json::json_pointer pointer("/metadata/total_size");
  if (index.contains(pointer) && index[pointer] != total) {
    warn("stale-index",
         fmt::format("the index claims {} bytes of tensors, the shards hold {}", index[pointer].dump(), total));
  }
}

Model open_shards(const std::string& folder, const std::set<std::string>& shards, const ReadOptions& options,
                  std::map<std::string, std::string>& shard_of) {
  std::vector<std::string> absent;
  bool dangling = false;
  for (const std::string& shard : shards) {
    const std::string path = plain_or_zst((fs::path(folder) / shard).string());
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      absent.push_back(shard);
      dangling = dangling || fs::is_symlink(path, ignored);
    } else if (!stays_in_model(folder, path)) {
      fail(ErrorCode::kCorrupt, "the shard '{}' is a link that leaves the model's folder", shard);
    }
  }
  if (!absent.empty()) {
    fail(ErrorCode::kMissing, "{} of {} shards are missing: {}{}", absent.size(), shards.size(), join_names(absent),
         dangling ? "; their links lead nowhere: the download did not end, start it again" : "");
  }
  Model model;
  std::vector<std::string> strays;
  for (const std::string& name : file_names(folder)) {
    const std::string bare(without_zst(name));
    const bool weights = bare.ends_with(".safetensors") || bare.starts_with("pytorch_model");
    if (weights && fs::path(bare).extension() == fs::path(without_zst(*shards.begin())).extension() &&
        !shards.contains(name) && !shards.contains(bare))
      strays.push_back(name);
  }
  if (!strays.empty()) {
    model.findings.push_back(
        {Severity::kWarning, "stray-weights",
         fmt::format("weights beside the shards that belong to no shard were not read: {}", join_names(strays))});
  }
  for (const std::string& shard : shards) {
    merge_shard(model, open_file(open_unpacked((fs::path(folder) / shard).string()), options), shard_of, shard);
  }
  return model;
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// The numbered parts that `name` is one of: all their names, or none where it has no number.
std::set<std::string> numbered_parts(const std::string& name) {
  const auto part = parse_part_name(name);
  if (!part || (part->ending != ".safetensors" && part->ending != ".bin" && part->ending != kSplitEnding)) return {};
  if (part->count == 0) fail(ErrorCode::kCorrupt, "'{}' is a shard of none", name);
  std::set<std::string> names;
  for (std::uint64_t i = 1; i <= part->count; ++i) names.insert(part_name(part->stem, i, part->count, part->ending));
  return names;
}

// One file, or the numbered parts of one model where all of `found` (not empty, sorted) belong to them.
Model open_weights(const std::string& folder, const std::vector<std::string>& found, const ReadOptions& options) {
  const std::set<std::string> parts = numbered_parts(found[0]);
  const bool one_model = std::all_of(found.begin(), found.end(), [&](const std::string& name) {
    return parts.contains(std::string(without_zst(name)));
  });
  if (found.size() > 1 && !one_model) {
    fail(ErrorCode::kUsage, "the folder holds several weight files ({}); name the one that you mean",
         join_names(found));
  }
  if (parts.empty() || without_zst(found[0]).ends_with(kSplitEnding)) {
    return open_file(File::open((fs::path(folder) / found[0]).string()), options);
  }
  std::map<std::string, std::string> shard_of;
  Model model = open_shards(folder, parts, options, shard_of);
  model.findings.push_back(
      {Severity::kWarning, "no-index", "the folder has shards but no index; their union was taken"});
  return model;
}

// The weights of a folder without an index: of the first extension that there is.
Model open_unindexed(const std::string& folder, const std::vector<std::string>& names, const ReadOptions& options) {
  static constexpr std::array<std::string_view, 7> kExtensions = {".safetensors", ".bin",  ".gguf", ".pth",
                                                                  ".pt",          ".ckpt", ".onnx"};
  for (const std::string_view extension : kExtensions) {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found), [&](const std::string& name) {
      return without_zst(name).ends_with(extension) && name != "training_args.bin" && !name.starts_with('.');
    });
    if (found.empty()) continue;
    for (const std::string_view usual :
         {"model.safetensors", "model.safetensors.zst", "pytorch_model.bin", "pytorch_model.bin.zst"}) {
      if (std::find(found.begin(), found.end(), usual) != found.end()) found = {std::string(usual)};
    }
    return open_weights(folder, found, options);
  }
  fail(ErrorCode::kMissing, "the folder holds no weights (.safetensors, .bin, .gguf, .pth, .pt, .ckpt, .onnx)");
}

// The index of a folder, or nothing: of several with one ending the usual one.
std::string find_index(const std::vector<std::string>& names) {
  for (const std::string_view usual : {"model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    const std::string_view ending = usual.substr(usual.find('.'));
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (without_zst(name) == usual) return name;
      if (without_zst(name).ends_with(ending)) found.push_back(name);
    }
    if (found.size() > 1) {
      fail(ErrorCode::kUsage, "the folder holds several indexes ({}); name the one that you mean", join_names(found));
    }
    if (!found.empty()) return found[0];
  }
  return {};
}

// A repository of the Hugging Face cache (models--org--name) holds its files in snapshots/<commit>; refs/main names
// one. Returns that folder, or nothing where `folder` is no such repository.
std::string cached_snapshot(const std::string& folder) {
  const fs::path snapshots = fs::path(folder) / "snapshots";
  std::error_code ignored;
  if (!fs::is_directory(snapshots, ignored) || !fs::is_directory(fs::path(folder) / "blobs", ignored)) return {};
  std::vector<std::string> known;
  for (fs::directory_iterator entry(snapshots, ignored); !ignored && entry != fs::directory_iterator();
       entry.increment(ignored)) {
    known.push_back(entry->path().filename().string());
  }
  std::sort(known.begin(), known.end());
  const std::string main_ref = (fs::path(folder) / "refs" / "main").string();
  if (fs::is_regular_file(main_ref, ignored) && fs::file_size(main_ref, ignored) < 256) {
    const auto file = File::open(main_ref);
    std::string commit(file->size(), '\0');
    file->read(0, std::as_writable_bytes(std::span(commit)));
    commit.erase(commit.find_last_not_of(" \r\n") + 1);
    if (std::binary_search(known.begin(), known.end(), commit)) return (snapshots / commit).string();
  }
  if (known.size() == 1) return (snapshots / known[0]).string();
  if (known.empty()) fail(ErrorCode::kMissing, "is a download cache without a snapshot; download the model again");
  fail(ErrorCode::kUsage, "is a download cache with several snapshots ({}); name the one under snapshots/",
       join_names(known));
}

}  // namespace

bool is_model_file(std::string_view name) {
  const std::string_view bare = without_zst(name);
  return is_weight_file(bare) || is_side_file(bare);
}

Model open_index(const std::string& path, const ReadOptions& options) {
  try {
    const std::string folder = parent_of(path);
    const json index = json_in<json>(*unpacked(File::open(path)), {"metadata", "weight_map"});
    const auto weight_map = read_weight_map(index);
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
    std::map<std::string, std::string> shard_of;
    Model model = open_shards(folder, shards, options, shard_of);
    compare_with_index(model, index, weight_map, shard_of);
    model.path = path;
    add_side_files(model, folder);
    return model;
  } catch (Error& error) {
    throw error.in_file(path);
  }
}

Model open_folder(const std::string& path, const ReadOptions& options) {
  try {
    if (const std::string snapshot = cached_snapshot(path); !snapshot.empty()) {
      Model model = open_folder(snapshot, options);
      model.path = path;
      return model;
    }
    const auto names = file_names(path);
    for (const std::string& name : names) {
      if (name.ends_with(".distcp")) {
        fail(ErrorCode::kUnsupported,
             "is a torch.distributed.checkpoint folder; turn it into one file with "
             "'python -m torch.distributed.checkpoint.format_utils dcp_to_torch'");
      }
    }
    if (const std::string index = find_index(names); !index.empty()) {
      Model model = open_index((fs::path(path) / index).string(), options);
      model.path = path;
      return model;
    }
    Model model = open_unindexed(path, names, options);
    model.path = path;
    add_side_files(model, path);
    return model;
  } catch (Error& error) {
    throw error.in_file(path);
  }
}

}  // namespace wconv
