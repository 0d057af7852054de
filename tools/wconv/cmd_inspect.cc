// wconv inspect: what is in a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "inspection.h"
#include "scan_output.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/pass.h"

namespace wconv::tool {
namespace {

struct InspectArguments {
  std::vector<std::string> models, tensors;
  std::string key;
  std::string report;
  bool stats = false, hash = false, scan = false, force = false;
};

// Indexes of the tensors that match any of the globs; all without globs.
std::vector<std::size_t> matching(const Model& model, const std::vector<std::string>& globs) {
  std::vector<std::size_t> shown;
  std::vector<bool> used(globs.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    bool matches = globs.empty();
    for (std::size_t g = 0; g < globs.size(); ++g) {
      if (!glob_match(globs[g], model.tensors[i].info.name)) continue;
      matches = true;
      used[g] = true;
    }
    if (matches) shown.push_back(i);
  }
  for (std::size_t g = 0; g < globs.size(); ++g) {
    if (used[g]) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("--tensors '{}' matches none of its {} tensors", globs[g], model.tensors.size()))
        .in_file(model.path);
  }
  return shown;
}

void show_model(const Globals& globals, const InspectArguments& arguments, const std::string& path,
                const std::string& scan) {
  ReadOptions read;
  read.key = arguments.key;
  read.whole_tree = arguments.key.empty();
  const Model model = open_model(path, read);
  Inspection inspection{
      model, matching(model, arguments.tensors), !arguments.tensors.empty(), arguments.stats, arguments.hash, {}, scan};
  if (arguments.stats || arguments.hash) {
    MeasureOptions options;
    options.stats = arguments.stats;
    options.digests = arguments.hash;
    options.threads = globals.threads;
    options.progress = progress_bar(globals, "reading");
    options.interrupted = &interrupted();
    check_records(model, globals.threads, &interrupted());
    inspection.measures = measure(model, inspection.shown, options);
  }
  if (globals.json) return print_inspection_json(inspection);
  print_inspection_text(globals, inspection);
}

// Returns the exit status. A file that cannot be opened as a model is scanned all the same.
int inspect_one(const Globals& globals, const InspectArguments& arguments, const std::string& path,
                std::vector<Scanned>& scanned) {
  check_is_path(path, "model");
  std::string scan;
  if (arguments.scan) {
    scanned.emplace_back(path, scan_model(path));
    scan = scan_json(scanned.back().second);
  }
  int status = 0;
  try {
    show_model(globals, arguments, path, scan);
    if (arguments.scan && !globals.json) print("\n");
  } catch (const Error& error) {
    if (!arguments.scan || error.code() == ErrorCode::kInterrupted) throw;
    status = report_error(globals, error, scan.empty() ? "" : ", \"scan\": " + scan);
  }
  if (!arguments.scan) return status;
  if (!globals.json) print_scan_text(globals, scanned.back());
  const ScanReport& report = scanned.back().second;
  if (!report.refused()) return status;
  const bool missing = std::all_of(report.items.begin(), report.items.end(), [](const ScanItem& item) {
    return item.verdict < Verdict::kUnknown || item.code == "missing";  // a Git LFS pointer is not the file to judge
  });
  return missing && status == exit_status(ErrorCode::kMissing) ? status : exit_status(ErrorCode::kCorrupt);
}

// The place of the report, taken before the work. Null: none is asked for.
std::unique_ptr<Output> open_report(const InspectArguments& arguments) {
  if (arguments.report.empty()) return nullptr;
  if (!arguments.scan) fail(ErrorCode::kUsage, "--report needs --scan: it holds the scan's findings");
  if (!arguments.report.ends_with(".sarif"))
    fail(ErrorCode::kUsage, "--report '{}': a report is a .sarif file", printable(arguments.report));
  return std::make_unique<Output>(arguments.report, false, arguments.force);
}

// Returns `status`, that of the models, which counts more than a report that cannot be written.
int write_report(const Globals& globals, const InspectArguments& arguments, const std::vector<Scanned>& scanned,
                 Output& report, int status) {
  try {
    report.add(std::filesystem::path(arguments.report).filename().string(), scan_sarif(scanned));
    report.commit();
    return status;
  } catch (const Error& error) {
    if (status == 0) throw;
    flush();
    report_error(globals, error);
    return status;
  }
}

int inspect(const Globals& globals, const InspectArguments& arguments) {
  const std::unique_ptr<Output> report = open_report(arguments);
  int status = 0;
  bool first = true;
  std::vector<Scanned> scanned;
  for (const std::string& path : arguments.models) {
    try {
      if (interrupted() != 0) fail(ErrorCode::kInterrupted, "interrupted");
      if (!first && !globals.json) print("\n");
      const int failed = inspect_one(globals, arguments, path, scanned);
      if (status == 0) status = failed;
    } catch (const Error& error) {
      if (arguments.models.size() == 1 || error.code() == ErrorCode::kInterrupted) throw;
      flush();
      const int failed = report_error(globals, error);
      if (status == 0) status = failed;
    }
    first = false;
    if (output_closed() && !arguments.scan) break;  // the verdict is the exit status, which nobody has closed
  }
  return report ? write_report(globals, arguments, scanned, *report, status) : status;
}

}  // namespace

Verb add_inspect(CLI::App& app, const Globals& globals) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* verb =
      app.add_subcommand("inspect", "Show what is in a model: totals, dtypes, metadata, tensors, findings");
  verb->add_option("MODEL", arguments->models, "Files, folders or index files")->type_name("")->required()->take_all();
  add_list(*verb, "--tensors", arguments->tensors, "List only the tensors whose names match")->type_name("GLOB");
  add_text(*verb, "--key", arguments->key, "Part of a nested PyTorch checkpoint to show, e.g. model_state_dict")
      ->type_name("PATH");
  verb->add_flag("--stats", arguments->stats, "Read all values: min, max, mean, sd, zeros, NaN, infinite, percentiles");
  verb->add_flag("--hash", arguments->hash, "SHA-256 of every file and of every tensor's stored bytes");
  verb->add_flag(
      "--scan", arguments->scan,
      "List every name that pickles hold and whatever else could run code, with a verdict; exit 65 for what\n"
      "is not known to be data");
  add_text(*verb, "--report", arguments->report, "Write what --scan found as SARIF 2.1.0")->type_name("OUT.sarif");
  verb->add_flag("-f,--force", arguments->force, "Replace the report if it exists");
  verb->footer(
      "Without --tensors the names are shown as a tree, in which layers of equal structure stand once.\n"
      "Several models with --json give one document a line.");
  return {verb, [arguments, &globals] { return inspect(globals, *arguments); }};
}

}  // namespace wconv::tool
