#include "wconv/manifest.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/hash.h"
#include "core/json_file.h"
#include "core/json_text.h"
#include "core/model_path.h"
#include "core/part_name.h"
#include "core/threads.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifest = 256 * 1024 * 1024;
constexpr std::size_t kHashChunk = 4 * 1024 * 1024;

// The path below the model's own folder: what does not depend on where the model lies.
std::string relative_name(const std::string& path, const std::string& model_path) {
  const fs::path below = fs::path(path).lexically_relative(fs::path(model_path));
  if (below.empty() || below == "." || *below.begin() == "..") return fs::path(path).filename().string();
  return below.generic_string();
}

std::string file_list(const std::vector<FileRecord>& files, const std::string& model_path) {
  std::string text;
  for (const FileRecord& file : files) {
    text += fmt::format("{}\n    {{\"path\": {}, \"bytes\": {}, \"sha256\": \"{}\"}}", text.empty() ? "" : ",",
                        json_string(relative_name(file.path, model_path)), file.bytes, file.sha256);
  }
  return text.empty() ? "[]" : "[" + text + "\n  ]";
}

std::string transform_text(const Transform& transform) {
  std::string text = fmt::format("{{\"op\": {}", json_string(transform.op));
  for (const auto& [key, value] : transform.parameters)
    text += fmt::format(", {}: {}", json_string(key), json_string(value));
  return text + "}";
}

std::string tensor_text(const Tensor& tensor, const TensorRecord& record, const std::string& model_path) {
  std::string text =
      fmt::format(R"({{"name": {}, "dtype": "{}", "shape": [{}], "sha256": "{}")", json_string(tensor.info.name),
                  name(tensor.info.dtype), fmt::join(tensor.info.shape, ", "), record.sha256);
  const std::string& source_name = tensor.source_name.empty() ? tensor.info.name : tensor.source_name;
  text +=
      fmt::format(R"(, "source": {{"name": {}, "dtype": "{}")", json_string(source_name), name(tensor.source_dtype));
  if (tensor.source_file) text += ", \"file\": " + json_string(relative_name(tensor.source_file->path(), model_path));
  text += "}, \"transforms\": [";
  for (std::size_t i = 0; i < tensor.transforms.size(); ++i)
    text += (i ? ", " : "") + transform_text(tensor.transforms[i]);
  text += "]";
  if (record.overflow.elements > 0) {
    text += fmt::format(R"(, "overflow": {{"elements": {}, "first": {}}})", record.overflow.elements,
                        record.overflow.first);
  }
  return text + "}";
}

// Groups of names that share their bytes.
std::string tied_text(const Model& model) {
  std::map<const TensorData*, std::vector<std::size_t>> owners;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.tensors[i].data->size_bytes() > 0) owners[model.tensors[i].data.get()].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [data, tensors] : owners) {
    if (tensors.size() > 1) groups.push_back(tensors);
  }
  std::sort(groups.begin(), groups.end());
  std::string text;
  for (const auto& group : groups) {
    text += text.empty() ? "[" : ", [";
    for (std::size_t i = 0; i < group.size(); ++i) {
      text += (i ? ", " : "") + json_string(model.tensors[group[i]].info.name);
    }
    text += "]";
  }
  return "[" + text + "]";
}

// `key: value` lines of the YAML front matter of a model card.
std::string card_value(const Model& model, std::string_view key) {
  for (const SideFile& side : model.side_files) {
    if (side.name != "README.md" || side.file->size() < 8) continue;
    std::vector<std::byte> bytes(std::min<std::uint64_t>(side.file->size(), 64 * 1024));
    side.file->read(0, bytes);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with("---")) continue;
    const std::string_view front = text.substr(0, text.find("\n---", 3));
    const auto at = front.find(fmt::format("\n{}:", key));
    if (at == std::string_view::npos) continue;
    std::string_view value = front.substr(at + key.size() + 2);
    value = value.substr(0, value.find('\n'));
    const auto begin = value.find_first_not_of(" \t\r'\""), end = value.find_last_not_of(" \t\r'\"");
    if (begin != std::string_view::npos) return std::string(value.substr(begin, end - begin + 1));
  }
  return {};
}

std::string provenance(const Model& model, std::string_view card_key, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const MetaValue* value = model.metadata.find(key);
    if (value && value->as_string()) return *value->as_string();
  }
  return card_value(model, card_key);
}

std::string sha256_of(const std::string& path, std::uint64_t& bytes) {
  const auto file = File::open(path);
  bytes = file->size();
  Sha256 sha;
  std::vector<std::byte> chunk;
  for (std::uint64_t done = 0; done < file->size(); done += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kHashChunk, file->size() - done));
    file->read(done, chunk);
    sha.update(chunk);
  }
  return sha.hex();
}

}  // namespace

std::string manifest_name(std::string_view output_name, bool folder) {
  return folder ? "wconv.json" : std::string(output_name) + ".wconv.json";
}

std::string manifest_text(const ManifestInfo& info, const Model& model, const EngineResult& result) {
  std::string text =
      fmt::format("{{\n  \"schema\": 1,\n  \"wconv\": \"{}\",\n  \"command\": \"{}\",\n  \"format\": \"{}\",\n",
                  info.version, info.verb, info.format);
  text += "  \"options\": {";
  for (std::size_t i = 0; i < info.options.size(); ++i) {
    text += fmt::format("{}{}: {}", i ? ", " : "", json_string(info.options[i].first), info.options[i].second);
  }
  text += "},\n";
  const std::string license = provenance(model, "license", {"general.license", "license"});
  const std::string base =
      provenance(model, "base_model", {"general.base_model.0.repo_url", "general.base_model.0.name", "base_model"});
  if (!license.empty()) text += "  \"license\": " + json_string(license) + ",\n";
  if (!base.empty()) text += "  \"base_model\": " + json_string(base) + ",\n";
  text += "  \"inputs\": " + file_list(result.inputs, model.path) + ",\n";
  text += "  \"outputs\": " + file_list(result.outputs, "") + ",\n  \"tensors\": [";
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    text += (i ? ",\n    " : "\n    ") + tensor_text(model.tensors[i], result.tensors[i], model.path);
  }
  return text + "\n  ],\n  \"tied\": " + tied_text(model) + "\n}\n";
}

namespace {

// The manifest of an output that a person may name by its file, its folder, a shard or the index of its shards.
fs::path manifest_path(const std::string& output_path) {
  static const std::regex kIndex(R"(\.index\.json(\.zst)?$)");
  std::error_code ignored;
  if (fs::is_directory(output_path, ignored)) return fs::path(output_path) / manifest_name("", true);
  if (fs::path own = manifest_name(output_path, false); fs::exists(own, ignored)) return own;
  const std::string plain = std::regex_replace(output_path, kIndex, "");
  const auto part = parse_part_name(plain);
  return manifest_name(part ? part->stem + part->ending : plain, false);
}

std::vector<FileRecord> recorded_outputs(const File& file) {
  const auto json =
      json_in<nlohmann::json>(file, {"outputs"}, kMaxManifest);  // its list of tensors is nearly all of it
  std::vector<FileRecord> outputs;
  try {
    for (const auto& output : json.at("outputs")) {
      outputs.push_back({output.at("path"), output.at("bytes"), output.at("sha256")});
      check_relative_path(outputs.back().path, "outputs");
    }
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::kCorrupt, "is no manifest of wconv: {}", error.what());
  }
  return outputs;
}

// What is wrong with one output; empty: nothing.
std::string output_problem(const std::string& path, const FileRecord& expected) {
  try {
    std::uint64_t size = 0;
    const std::string sha256 = sha256_of(path, size);
    if (size != expected.bytes) return fmt::format("has {} bytes, the manifest says {}", size, expected.bytes);
    if (sha256 != expected.sha256) return fmt::format("has SHA-256 {}, the manifest says {}", sha256, expected.sha256);
    return {};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kMissing) throw;
    return "is missing";
  }
}

}  // namespace

bool has_manifest(const std::string& output_path) {
  std::error_code ignored;
  return fs::exists(manifest_path(output_path), ignored);
}

std::vector<ManifestProblem> check_manifest(const std::string& output_path, unsigned threads) {
  const fs::path path = manifest_path(output_path);
  std::vector<FileRecord> outputs;
  try {
    outputs = recorded_outputs(*File::open(path.string()));
  } catch (Error& error) {
    throw error.in_file(path.string());
  }
  std::vector<std::string> found(outputs.size());
  parallel_for(outputs.size(), threads, [&](std::size_t i) {
    found[i] = output_problem((path.parent_path() / outputs[i].path).string(), outputs[i]);
  });
  std::vector<ManifestProblem> problems;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].empty()) problems.push_back({outputs[i].path, "", found[i]});
  }
  return problems;
}

}  // namespace wconv
