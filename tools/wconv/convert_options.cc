#include "convert_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "compress.h"
#include "core/json_text.h"

namespace wconv::tool {

void add_options(CLI::App& verb, ConvertOptions& options) {
  verb.add_option("IN", options.input, "File, Hugging Face folder or index")->type_name("")->required();
  verb.add_option("-o,--output", options.output,
                  "Output; its extension picks the format, none is a Hugging Face folder")
      ->type_name("OUT")
      ->required();
  add_text(verb, "--to", options.to, "Format of the output: safetensors, pytorch, gguf, onnx, hf")->type_name("FORMAT");
  add_text(verb, "--dtype", options.dtype, "Cast every floating-point tensor to this type")->type_name("T");
  add_list(verb, "--tensor-dtype", options.tensor_dtype, "Cast the tensors that match; the last match wins")
      ->type_name("GLOB=T");
  verb.add_option("--on-overflow", options.on_overflow, "Values too large for the type: error, saturate or inf")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"error", "saturate", "inf"}));
  add_list(verb, "--include", options.include, "Write only tensors that match")->type_name("GLOB");
  add_list(verb, "--exclude", options.exclude, "Leave out tensors that match")->type_name("GLOB");
  add_list(verb, "--strip-prefix", options.strip_prefix, "Remove this prefix from names, e.g. module.")->type_name("P");
  add_list(verb, "--rename", options.rename, "Replace what matches in names ($1 is a group)")
      ->type_name("REGEX=REPLACEMENT");
  add_text(verb, "--weights", options.weights,
           "Model whose tensors take the place of those of the same name; an ONNX model keeps its graph")
      ->type_name("MODEL");
  add_text(verb, "--key", options.key, "Part of a nested checkpoint, e.g. model_state_dict")->type_name("PATH");
  add_text(verb, "--shard-size", options.shard_size, "Split the output into files of at most this size")
      ->type_name("SIZE");
  add_text(verb, "--compress", options.compress,
           "Compress weights as seekable zstd, at level 3 or from 1 to 22; an OUT that ends in .zst asks for it too.\n"
           "OUT is named as given; shards and weights in a folder get the ending .zst")
      ->type_name("zstd[:LEVEL]");
  add_list(verb, "--set", options.metadata.set,
           "Set metadata; what follows the key's last ':' is its type, as in KEY:u32=7; without one the type is\n"
           "the key's, or GGUF's for this key, or string")
      ->type_name("KEY=VALUE");
  add_list(verb, "--set-file", options.metadata.set_file, "Set metadata to a file's text")->type_name("KEY=PATH");
  add_list(verb, "--unset", options.metadata.unset, "Remove metadata")->type_name("KEY");
  verb.add_flag("-f,--force", options.force, "Replace the output if it exists, with its shards, index and manifest");
  verb.add_flag("-n,--dry-run", options.dry_run,
                "Print the plan with exact sizes (of compressed files: the most they take); write nothing");
  verb.add_flag("--no-manifest", options.no_manifest, "Write no manifest and compute no digests");
}

std::vector<std::pair<std::string, std::string>> resolved(const ConvertOptions& options, const FormatWriter& writer) {
  std::vector<std::pair<std::string, std::string>> list = {{"to", json_string(writer.name())}};
  const auto add = [&](std::string_view name, const std::vector<std::string>& values) {
    if (!values.empty()) list.emplace_back(name, json_strings(values));
  };
  if (!options.dtype.empty()) list.emplace_back("dtype", json_string(name(*dtype_from_name(options.dtype))));
  add("tensor-dtype", options.tensor_dtype);
  if (!options.dtype.empty() || !options.tensor_dtype.empty())
    list.emplace_back("on-overflow", json_string(options.on_overflow));
  add("include", options.include);
  add("exclude", options.exclude);
  add("strip-prefix", options.strip_prefix);
  add("rename", options.rename);
  if (!options.weights.empty())
    list.emplace_back("weights", json_string(std::filesystem::path(options.weights).filename().string()));
  if (!options.key.empty()) list.emplace_back("key", json_string(options.key));
  if (!options.shard_size.empty())
    list.emplace_back("shard-size", std::to_string(parse_size("--shard-size", options.shard_size)));
  if (const int level = compression_level(options.compress, options.output))
    list.emplace_back("compress", json_string(fmt::format("zstd:{}", level)));
  add("set", options.metadata.set);
  std::vector<std::string> keys;
  for (const std::string& edit : options.metadata.set_file) keys.push_back(edit.substr(0, edit.find('=')));
  add("set-file", keys);
  add("unset", options.metadata.unset);
  return list;
}

}  // namespace wconv::tool
