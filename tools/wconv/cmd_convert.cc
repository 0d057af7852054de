// wconv convert IN -o OUT: read, pass, plan, execute, record.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "compress.h"
#include "convert_options.h"
#include "convert_output.h"
#include "core/list_text.h"
#include "core/zstd_file.h"
#include "earlier_output.h"
#include "hf_config.h"
#include "output_place.h"
#include "text_table.h"
#include "tool.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/manifest.h"
#include "wconv/pass.h"

namespace wconv::tool {
namespace {

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

// What config.json is to say where options have changed dtypes: the one of all floating-point tensors, or --dtype.
std::optional<DType> new_dtype(const Model& model, const ConvertOptions& options) {
  if (options.dtype.empty() && options.tensor_dtype.empty()) return std::nullopt;
  std::set<DType> dtypes;
  for (const Tensor& tensor : model.tensors)
    if (info(tensor.info.dtype).kind == DTypeKind::kFloat && !tensor.is_parameter) dtypes.insert(tensor.info.dtype);
  if (dtypes.size() == 1) return *dtypes.begin();
  return options.dtype.empty() ? std::nullopt : std::optional(parse_dtype(options.dtype));
}

// Side files go along into a folder, as they are; config.json learns a new dtype.
void plan_side_files(const Model& model, const ConvertOptions& options, Layout& layout) {
  std::vector<OutputFile> files;
  for (const SideFile& side : model.side_files) {
    OutputFile file;
    file.name = side.name;
    std::string changed;
    if (side.name == "config.json") {
      if (const auto dtype = new_dtype(model, options)) changed = config_with_dtype(*side.file, *dtype);
    }
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

// A manifest is JSON, whose names are UTF-8.
void check_names(const Layout& layout, const OutputPlace& place) {
  for (const OutputFile& file : layout.files) {
    if (!is_utf8(file.name))
      throw Error(ErrorCode::kUsage, "its name is not UTF-8, which a manifest cannot hold; use --no-manifest")
          .in_file(place.path);
  }
}

Layout plan(const Model& source, Model& model, const ConvertOptions& options, const Target& target,
            const OutputPlace& place) {
  check_model(source, model, options, target, place.write);
  Layout layout = target.writer->plan(model, place.write);
  compress_weights(layout, place.zstd_level, place.file_name);
  if (!options.no_manifest) check_names(layout, place);
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

// A folder is replaced as a whole.
void warn_of_lost_files(const OutputPlace& place, const Layout& layout, const std::string& manifest,
                        ConvertSummary& summary) {
  const auto lost = lost_files(place.path, layout, manifest);
  if (lost.empty()) return;
  summary.warnings.push_back(fmt::format("{}: the new folder does not have {} of the one that it replaces", place.path,
                                         quoted_names(lost, 5)));
  warn(summary.warnings.back());
}

// Files of an earlier output that this one takes the place of: only --force removes them.
std::vector<std::string> replaced_files(const ConvertOptions& options, const Target& target, const OutputPlace& place,
                                        const Layout& layout, ConvertSummary& summary) {
  const std::string manifest = options.no_manifest ? "" : manifest_of(place, layout);
  if (target.folder && options.force) warn_of_lost_files(place, layout, manifest, summary);
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
    Output::check_place(place.path, target.folder, true);
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
  add_options(*verb, *options);
  return {verb, [&globals, options] { return convert(globals, *options); }};
}

}  // namespace wconv::tool
