// wconv convert IN -o OUT: read, pass, plan, execute, record.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "compress.h"
#include "convert_output.h"
#include "core/json_text.h"
#include "core/list_text.h"
#include "core/zstd_file.h"
#include "earlier_output.h"
#include "hf_config.h"
#include "text_table.h"
#include "tool.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/manifest.h"
#include "wconv/pass.h"

namespace wconv::tool {
namespace {

struct ConvertOptions {
  std::string input, output, to, dtype, weights, key, shard_size, compress, on_overflow = "error";
  std::vector<std::string> tensor_dtype, include, exclude, strip_prefix, rename;
  MetadataEdits metadata;
  bool force = false, dry_run = false, no_manifest = false;
};

// The options that shape the bytes, resolved; paths are left out, for the manifest is the same on every machine.
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

std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view option,
                                               std::string_view form) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos) fail(ErrorCode::kUsage, "{} '{}' is not of the form {}", option, text, form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

DType parse_dtype(const std::string& text) {
  if (const auto dtype = dtype_from_name(text)) return *dtype;
  fail(ErrorCode::kUsage, "'{}' is no dtype; plain ones are F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL",
       text);
}

OnOverflow parse_overflow(const std::string& text) {
  return text == "error" ? OnOverflow::kError : text == "saturate" ? OnOverflow::kSaturate : OnOverflow::kInfinity;
}

struct Target {
  const FormatWriter* writer = nullptr;
  bool folder = false;
};

// --to decides, then OUT's extension; a name without an extension (or ending in '/') is a Hugging Face folder.
Target resolve_target(const ConvertOptions& options) {
  Target target;
  const std::string& path = options.output;
  const bool slash = path.ends_with('/');
  const std::string extension = std::filesystem::path(without_zst(path)).extension().string();
  target.writer = find_writer_by_extension(path);
  target.folder = slash || options.to == "hf" || (extension.empty() && options.to.empty() && without_zst(path) == path);
  if (!options.to.empty() && options.to != "hf") {
    target.writer = find_writer(options.to);
    if (!target.writer)
      fail(ErrorCode::kUsage, "--to {}: wconv writes safetensors, pytorch, gguf, onnx and hf", options.to);
  } else if (target.folder) {
    target.writer = find_writer("safetensors");
  }
  if (!target.writer) {
    fail(ErrorCode::kUsage,
         "{}: the extension '{}' names no format that wconv writes (.safetensors, .pth, .pt, .bin, "
         ".gguf, .onnx, or none for a Hugging Face folder; .zst may follow); --to says it",
         path, extension);
  }
  return target;
}

Model apply_passes(Model model, const ConvertOptions& options) {
  if (!options.weights.empty()) {
    const Model weights = open_model(options.weights, {});
    report_findings(weights);
    model = replace_weights(std::move(model), weights);
  }
  model = select_tensors(std::move(model), options.include, options.exclude);
  RenameRules rules;
  rules.strip_prefixes = options.strip_prefix;
  for (const std::string& text : options.rename) {
    rules.replacements.push_back(split_pair(text, "--rename", "REGEX=REPLACEMENT"));
  }
  model = rename_tensors(std::move(model), rules);
  CastRules casts;
  if (!options.dtype.empty()) casts.dtype = parse_dtype(options.dtype);
  for (const std::string& text : options.tensor_dtype) {
    const auto [glob, dtype] = split_pair(text, "--tensor-dtype", "GLOB=T");
    casts.tensor_dtype.emplace_back(glob, parse_dtype(dtype));
  }
  casts.on_overflow = parse_overflow(options.on_overflow);
  model = cast_tensors(std::move(model), casts);
  return edit_metadata(std::move(model), options.metadata);
}

// What the format cannot hold is the source's own, or else an option has made it.
ErrorCode blame(const Model& source, const ConvertOptions& options, const FormatWriter& writer) {
  const Model selected = select_tensors(source, options.include, options.exclude);
  return writer.check(selected, {}).empty() ? ErrorCode::kUsage : ErrorCode::kUnsupported;
}

void check_model(const Model& source, const Model& model, const ConvertOptions& options, const Target& target,
                 const WriteOptions& write) {
  if (model.tensors.empty() && !source.tensors.empty())
    throw Error(ErrorCode::kUsage,
                fmt::format("--include and --exclude leave none of the {}", counted(source.tensors.size(), "tensor")))
        .in_file(source.path);
  if (model.tensors.empty() && source.format != target.writer->name())
    throw Error(ErrorCode::kUnsupported, fmt::format("holds no tensors; only {} is written from it, not {}",
                                                     source.format, target.writer->name()))
        .in_file(source.path);
  std::vector<std::string> problems = target.writer->check(model, write);
  if (problems.empty()) return;
  const std::size_t shown = std::min<std::size_t>(problems.size(), 20);
  std::string text =
      fmt::format("{}", fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
  if (problems.size() > shown) text += fmt::format("; and {} more", problems.size() - shown);
  throw Error(blame(source, options, *target.writer),
              fmt::format("cannot be written as {}: {}", target.writer->name(), text))
      .in_file(model.path);
}

// Side files go along into a folder, as they are; config.json learns a new dtype.
void plan_side_files(const Model& model, const ConvertOptions& options, Layout& layout) {
  std::vector<OutputFile> files;
  for (const SideFile& side : model.side_files) {
    OutputFile file;
    file.name = side.name;
    std::string changed;
    if (side.name == "config.json" && !options.dtype.empty())
      changed = config_with_dtype(*side.file, parse_dtype(options.dtype));
    if (changed.empty()) {
      file.size = side.file->size();
      file.pieces.push_back({0, FilePiece{{side.file, 0, side.file->size()}}});
    } else {
      LiteralPiece literal;
      for (const char c : changed) literal.bytes.push_back(static_cast<std::byte>(c));
      file.size = literal.bytes.size();
      file.pieces.push_back({0, std::move(literal)});
    }
    files.push_back(std::move(file));
  }
  layout.files.insert(layout.files.begin(), std::make_move_iterator(files.begin()),
                      std::make_move_iterator(files.end()));
}

// What the source had and the output has not. A graph that is written again keeps all that is in it.
std::vector<std::string> skipped_names(const Model& source, const Model& model, const FormatWriter& writer) {
  std::vector<std::string> kept, skipped;
  if (!source.graph || source.format != writer.name()) skipped = source.left_out;
  for (const Tensor& tensor : model.tensors)
    kept.push_back(tensor.source_name.empty() ? tensor.info.name : tensor.source_name);
  std::sort(kept.begin(), kept.end());
  for (const RefusedTensor& tensor : source.refused) skipped.push_back(tensor.name);
  for (const Tensor& tensor : source.tensors) {
    if (!std::binary_search(kept.begin(), kept.end(), tensor.info.name)) skipped.push_back(tensor.info.name);
  }
  return skipped;
}

struct OutputPlace {
  std::string path;       // without a slash at its end
  std::string prefix;     // of the paths of the output's files
  std::string file_name;  // the last component of the path; empty for a folder
  int zstd_level = 0;     // 0: not compressed
  WriteOptions write;     // its file_name has no .zst
};

OutputPlace place_of(const ConvertOptions& options, const Target& target) {
  OutputPlace place;
  place.path = options.output;
  while (place.path.size() > 1 && place.path.ends_with('/')) place.path.pop_back();
  const std::string parent = std::filesystem::path(place.path).parent_path().string();
  place.prefix = target.folder ? place.path + "/" : parent.empty() ? "" : parent == "/" ? parent : parent + "/";
  place.write.folder = target.folder;
  if (!target.folder) place.file_name = std::filesystem::path(place.path).filename().string();
  place.write.file_name = without_zst(place.file_name);
  place.zstd_level = compression_level(options.compress, target.folder ? "" : place.path);
  if (!options.shard_size.empty()) place.write.shard_size = parse_size("--shard-size", options.shard_size);
  return place;
}

Layout plan(const Model& source, Model& model, const ConvertOptions& options, const Target& target,
            const OutputPlace& place) {
  check_model(source, model, options, target, place.write);
  Layout layout = target.writer->plan(model, place.write);
  compress_weights(layout, place.zstd_level, place.file_name);
  if (target.folder) {
    plan_side_files(model, options, layout);
  } else {
    model.side_files.clear();
  }
  return layout;
}

// What is known before the work; warns of what the passes have found.
ConvertSummary summary_of(const Model& source, const Model& model, const FormatWriter& writer,
                          const OutputPlace& place) {
  ConvertSummary summary;
  summary.tensors = model.tensors.size();
  summary.skipped = skipped_names(source, model, writer);
  summary.output_prefix = place.prefix;
  for (std::size_t i = source.findings.size(); i < model.findings.size(); ++i) warn(model.findings[i].message);
  for (const Finding& finding : model.findings) {
    if (finding.severity != Severity::kNote) summary.warnings.push_back(finding.message);
  }
  return summary;
}

// A dry run makes no output.
void warn_exists(const std::string& path, ConvertSummary& summary) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  if (!exists || (std::filesystem::is_directory(path, ignored) && std::filesystem::is_empty(path, ignored))) return;
  summary.warnings.push_back(fmt::format("{}: exists; only --force would replace it", path));
  warn(summary.warnings.back());
}

// Other programs tell a compressed file by its name.
void warn_of_name(const OutputPlace& place, const Layout& layout, ConvertSummary& summary) {
  if (layout.files.size() != 1 || layout.files[0].zstd_level == 0 ||
      without_zst(layout.files[0].name) != layout.files[0].name)
    return;
  summary.warnings.push_back(
      fmt::format("{}: holds zstd, which other programs expect under the name {}.zst", place.path, place.path));
  warn(summary.warnings.back());
}

// A dry run reads no values.
void warn_unchecked(const Model& model, ConvertSummary& summary) {
  const std::size_t narrowed = count_narrowed(model);
  if (narrowed == 0) return;
  summary.warnings.push_back(
      fmt::format("a dry run checks no values: those of {} are cast to a type of less range, which they may not fit",
                  counted(narrowed, "tensor")));
  warn(summary.warnings.back());
}

// A file among shards has a manifest of the name that all of them share.
std::string manifest_of(const OutputPlace& place, const Layout& layout) {
  const bool named = std::any_of(layout.files.begin(), layout.files.end(),
                                 [&](const OutputFile& file) { return file.name == place.file_name; });
  return manifest_name(named ? place.file_name : place.write.file_name, place.write.folder);
}

// Files of an earlier output that this one takes the place of: only --force removes them.
std::vector<std::string> replaced_files(const ConvertOptions& options, const Target& target, const OutputPlace& place,
                                        const Layout& layout, ConvertSummary& summary) {
  const std::string manifest = options.no_manifest ? manifest_of(place, layout) : "";
  const auto names = earlier_output(place.prefix, *target.writer, place.write, place.file_name, layout, manifest);
  if (names.empty()) return names;
  const std::string list = quoted_names(names, 3);
  if (!options.force)
    throw Error(
        ErrorCode::kUsage,
        fmt::format("{} of an earlier output of this name would be left beside it; --force removes {}, another name "
                    "for the output keeps {}",
                    list, names.size() == 1 ? "it" : "them", names.size() == 1 ? "it" : "them"))
        .in_file(place.path);
  summary.warnings.push_back(fmt::format("{}: {} of an earlier output {} removed", place.path, list,
                                         options.dry_run     ? "would be"
                                         : names.size() == 1 ? "is"
                                                             : "are"));
  warn(summary.warnings.back());
  return names;
}

int convert(const Globals& globals, const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_is_path(options.input, "model");
  check_is_path(options.output, "output");
  if (!options.weights.empty()) check_is_path(options.weights, "weights");
  const Target target = resolve_target(options);
  const OutputPlace place = place_of(options, target);
  ReadOptions read;
  read.key = options.key;
  const Model source = open_model(options.input, read);
  report_findings(source);
  Model model = apply_passes(source, options);
  const Layout layout = plan(source, model, options, target, place);

  ConvertSummary summary = summary_of(source, model, *target.writer, place);
  warn_of_name(place, layout, summary);
  const auto replaced = replaced_files(options, target, place, layout, summary);
  const EngineOptions engine{
      globals.threads, globals.max_memory, options.force, !options.no_manifest, progress_bar(globals, "converting"),
      &interrupted()};
  const std::uint64_t memory = planned_memory(layout, model, engine);
  note(fmt::format("{}: {} tensors to {}, with {} of memory for weights", source.path, summary.tensors,
                   target.writer->name(), human_size(memory)));
  if (options.dry_run) {
    if (!options.force) warn_exists(place.path, summary);
    warn_unchecked(model, summary);
    print_plan(globals, summary, layout, model, memory);
    return 0;
  }

  Output output(place.path, target.folder, options.force);
  const EngineResult result = execute(model, layout, output, engine);
  for (const Finding& finding : overflow_findings(model, parse_overflow(options.on_overflow))) {
    warn(finding.message);
    summary.warnings.push_back(finding.message);
  }
  if (!options.no_manifest) {
    const ManifestInfo info{WCONV_VERSION, "convert", resolved(options, *target.writer),
                            std::string(target.writer->name())};
    output.add(manifest_of(place, layout), manifest_text(info, model, result));
  }
  for (const std::string& name : replaced) output.replaces(name);
  output.commit();
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_result(globals, summary, result);
  return 0;
}

}  // namespace

Verb add_convert(CLI::App& app, const Globals& globals) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* verb = app.add_subcommand("convert", "Write a model in another format, dtype, naming or sharding");
  verb->add_option("IN", options->input, "File, Hugging Face folder or index")->type_name("")->required();
  verb->add_option("-o,--output", options->output,
                   "Output; its extension picks the format, none is a Hugging Face folder")
      ->type_name("OUT")
      ->required();
  add_text(*verb, "--to", options->to, "Format of the output: safetensors, pytorch, gguf, onnx, hf")
      ->type_name("FORMAT");
  add_text(*verb, "--dtype", options->dtype, "Cast every floating-point tensor to this type")->type_name("T");
  add_list(*verb, "--tensor-dtype", options->tensor_dtype, "Cast the tensors that match; the last match wins")
      ->type_name("GLOB=T");
  verb->add_option("--on-overflow", options->on_overflow, "Values too large for the type: error, saturate or inf")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"error", "saturate", "inf"}));
  add_list(*verb, "--include", options->include, "Write only tensors that match")->type_name("GLOB");
  add_list(*verb, "--exclude", options->exclude, "Leave out tensors that match")->type_name("GLOB");
  add_list(*verb, "--strip-prefix", options->strip_prefix, "Remove this prefix from names, e.g. module.")
      ->type_name("P");
  add_list(*verb, "--rename", options->rename, "Replace what matches in names ($1 is a group)")
      ->type_name("REGEX=REPLACEMENT");
  add_text(*verb, "--weights", options->weights,
           "Model whose tensors take the place of those of the same name; an ONNX model keeps its graph")
      ->type_name("MODEL");
  add_text(*verb, "--key", options->key, "Part of a nested checkpoint, e.g. model_state_dict")->type_name("PATH");
  add_text(*verb, "--shard-size", options->shard_size, "Split the output into files of at most this size")
      ->type_name("SIZE");
  add_text(*verb, "--compress", options->compress,
           "Compress weights as seekable zstd, at level 3 or from 1 to 22; an OUT that ends in .zst asks for it too.\n"
           "OUT is named as given; shards and weights in a folder get the ending .zst")
      ->type_name("zstd[:LEVEL]");
  add_list(*verb, "--set", options->metadata.set,
           "Set metadata; what follows the key's last ':' is its type, as in KEY:u32=7; without one the type is\n"
           "the key's, or GGUF's for this key, or string")
      ->type_name("KEY=VALUE");
  add_list(*verb, "--set-file", options->metadata.set_file, "Set metadata to a file's text")->type_name("KEY=PATH");
  add_list(*verb, "--unset", options->metadata.unset, "Remove metadata")->type_name("KEY");
  verb->add_flag("-f,--force", options->force, "Replace the output if it exists, with its shards, index and manifest");
  verb->add_flag("-n,--dry-run", options->dry_run,
                 "Print the plan with exact sizes (of compressed files: the most they take); write nothing");
  verb->add_flag("--no-manifest", options->no_manifest, "Write no manifest and compute no digests");
  return {verb, [&globals, options] { return convert(globals, *options); }};
}

}  // namespace wconv::tool
