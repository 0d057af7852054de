// wconv verify: compares two models, or checks that one is whole.
#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <memory>

#include "tool.h"
#include "verify_output.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/verify.h"

namespace wconv::tool {
namespace {

struct VerifyArguments {
  std::string reference, candidate, key, candidate_key;
  bool keys = false, tensors = false, manifest = false;
  std::optional<double> max_rmse, min_cosine;
};

Model open_for(const std::string& path, const std::string& key, bool whole_tree) {
  check_is_path(path, "model");
  ReadOptions options;
  options.key = key;
  options.whole_tree = whole_tree && key.empty();
  Model model = open_model(path, options);
  report_findings(model);
  if (!whole_tree) check_none_refused(model);
  return model;
}

int verify_one(const Globals& globals, const VerifyArguments& arguments) {
  const Model model = open_for(arguments.reference, arguments.key, true);
  WholeOptions options;
  options.threads = globals.threads;
  options.require_manifest = arguments.manifest;
  options.progress = progress_bar(globals, "reading");
  options.interrupted = &interrupted();
  const WholeReport report = check_whole(model, options);
  if (globals.json) {
    print_whole_json(model, report);
  } else {
    print_whole_text(globals, model, report);
  }
  return report.problems.empty() ? 0 : exit_status(ErrorCode::kMismatch);
}

// 1 when anything is known to differ; 65 when the only thing against equality is that values couldn't be decoded.
int status_of(const VerifyReport& report) {
  if (report.equal) return 0;
  bool undecodable = false, names = !report.missing.empty() || !report.unexpected.empty(), different = false;
  for (const TensorComparison& tensor : report.tensors) {
    names = names || tensor.name != tensor.candidate_name;
    undecodable = undecodable || tensor.status == "undecodable";
    different = different || (!tensor.passes() && tensor.status != "undecodable");
  }
  return undecodable && !names && !different ? exit_status(ErrorCode::kUnsupported) : exit_status(ErrorCode::kMismatch);
}

int verify_two(const Globals& globals, const VerifyArguments& arguments) {
  if (arguments.manifest) fail(ErrorCode::kUsage, "--manifest checks one model: wconv verify MODEL --manifest");
  VerifyOptions options;
  options.keys_only = arguments.keys;
  options.threads = globals.threads;
  options.max_rmse = arguments.max_rmse;
  options.min_cosine = arguments.min_cosine;
  options.progress = progress_bar(globals, "comparing");
  options.interrupted = &interrupted();
  const Model reference = open_for(arguments.reference, arguments.key, false);
  const Model candidate = open_for(arguments.candidate, arguments.candidate_key, false);
  const VerifyReport report = verify(reference, candidate, options);
  if (globals.json) {
    print_report_json({arguments.reference, arguments.candidate}, report);
  } else {
    print_report_text(globals, report, options);
  }
  return status_of(report);
}

int verify_run(const Globals& globals, const VerifyArguments& arguments) {
  if (!arguments.candidate.empty()) return verify_two(globals, arguments);
  for (const auto& [given, option] : {std::pair(arguments.keys, "--keys"),
                                      {arguments.tensors, "--tensors"},
                                      {arguments.max_rmse.has_value(), "--max-rmse"},
                                      {arguments.min_cosine.has_value(), "--min-cosine"},
                                      {!arguments.candidate_key.empty(), "--candidate-key"}}) {
    if (given) fail(ErrorCode::kUsage, "{} compares two models: wconv verify REFERENCE CANDIDATE {}", option, option);
  }
  return verify_one(globals, arguments);
}

// A number from `least` to `most`; CLI11's own check prints the range with all 309 digits.
CLI::Validator number_between(double least, double most, const std::string& wanted) {
  return CLI::Validator(
      [=](const std::string& text) {
        double number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const bool is_number = error == std::errc() && end == text.data() + text.size();
        const bool fits = is_number && number >= least && number <= most;
        return fits ? std::string() : fmt::format("'{}' is not {}", printable(text.substr(0, 40)), wanted);
      },
      "");
}

}  // namespace

Verb add_verify(CLI::App& app, const Globals& globals) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verb = app.add_subcommand("verify", "Compare two models value by value, or check that one is whole");
  verb->add_option("REFERENCE", arguments->reference, "The model to compare with, or the one to check")
      ->type_name("")
      ->required();
  add_text(*verb, "CANDIDATE", arguments->candidate, "The model that should equal it; of any format")->type_name("");
  auto* keys = verb->add_flag("--keys", arguments->keys, "Compare names and shapes only");
  verb->add_flag("--tensors", arguments->tensors, "Compare all values (the default)")->excludes(keys);
  verb->add_option("--max-rmse", arguments->max_rmse,
                   "Accept tensors whose values differ by at most this root-mean-square error, in their own unit")
      ->type_name("X")
      ->check(number_between(0, std::numeric_limits<double>::max(), "a finite number from 0 on"))
      ->excludes(keys);
  verb->add_option("--min-cosine", arguments->min_cosine, "Accept tensors with at least this cosine similarity")
      ->type_name("X")
      ->check(number_between(-1, 1, "a number from -1 to 1"))
      ->excludes(keys);
  verb->add_flag("--manifest", arguments->manifest, "Require the manifest beside one model, and check its digests");
  add_text(*verb, "--key", arguments->key, "Part of a nested PyTorch checkpoint to take, of REFERENCE")
      ->type_name("PATH");
  add_text(*verb, "--candidate-key", arguments->candidate_key, "The same for CANDIDATE")->type_name("PATH");
  verb->footer(
      "Exit status: 0 equal, within the thresholds, or whole; 1 different; 65 damaged, or values that cannot be\n"
      "decoded. With no threshold values must be equal; another dtype with equal values is equal. NaN equals NaN.");
  return {verb, [arguments, &globals] { return verify_run(globals, *arguments); }};
}

}  // namespace wconv::tool
