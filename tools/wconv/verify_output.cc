#include "verify_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json_text.h"
#include "text_table.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

constexpr std::size_t kRows = 10, kNames = 20;
constexpr std::size_t kNameWidth = 60;

std::string dtype_text(const TensorComparison& tensor) {
  const std::string reference(name(tensor.dtypes[0]));
  return tensor.dtypes[0] == tensor.dtypes[1] ? reference : reference + " → " + std::string(name(tensor.dtypes[1]));
}

std::string shape_pair_text(const TensorComparison& tensor) {
  const std::string reference = shape_text(tensor.shape);
  return tensor.shape == tensor.candidate_shape ? reference : reference + " → " + shape_text(tensor.candidate_shape);
}

// Failing tensors first, then the lowest SNR.
bool worse(const TensorComparison* a, const TensorComparison* b) {
  const auto rank = [](const TensorComparison* t) {
    const double snr = t->measured ? t->snr_db : -INFINITY;
    return std::tuple(t->passes(), t->nonfinite_mismatches == 0, snr);
  };
  return rank(a) < rank(b);
}

std::vector<std::string> table_row(const TensorComparison& tensor) {
  std::vector<std::string> row = {shortened(printable(tensor.name), kNameWidth), tensor.status, dtype_text(tensor),
                                  shape_pair_text(tensor)};
  if (tensor.measured) {
    for (const double number : {tensor.max_abs, tensor.rmse}) row.push_back(short_number(number));
    row.push_back(fmt::format("{:.6f}", tensor.cosine));
    row.push_back(fmt::format("{:.1f}", tensor.snr_db));
    row.push_back(fmt::format("{} of {}", grouped(tensor.different_values), grouped(tensor.values)));
  } else {
    row.insert(row.end(), 5, "-");
  }
  return row;
}

void print_table(const Globals& globals, const VerifyReport& report) {
  std::vector<const TensorComparison*> rows;
  for (const TensorComparison& tensor : report.tensors) {
    const bool notable = tensor.status != "equal" && tensor.status != "dtype";
    if (notable || globals.verbose) rows.push_back(&tensor);
  }
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(), worse);
  const std::size_t shown = globals.verbose ? rows.size() : std::min(rows.size(), kRows);
  TextTable table("llllrrrrr");
  table.add({"tensor", "status", "dtype", "shape", "max abs", "RMSE", "cosine", "SNR dB", "different"});
  for (std::size_t i = 0; i < shown; ++i) table.add(table_row(*rows[i]));
  print("\n" + table.text("  "));
  if (rows.size() > shown) print(fmt::format("  … and {} more (-v shows all)\n", grouped(rows.size() - shown)));
}

void print_names(const Globals& globals, std::string_view title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  print("\n" + bold(globals, fmt::format("{} ({})", title, grouped(names.size()))) + "\n");
  const std::size_t shown = globals.verbose ? names.size() : std::min(names.size(), kNames);
  for (std::size_t i = 0; i < shown; ++i) print("  " + printable(names[i]) + "\n");
  if (names.size() > shown) print(fmt::format("  … and {} more (-v shows all)\n", grouped(names.size() - shown)));
}

std::string thresholds_text(const VerifyOptions& options) {
  std::string text;
  if (options.max_rmse) text += fmt::format("RMSE ≤ {}", *options.max_rmse);
  if (options.min_cosine) text += fmt::format("{}cosine ≥ {}", text.empty() ? "" : ", ", *options.min_cosine);
  return text;
}

std::string summary_text(const Globals& globals, const VerifyReport& report, const VerifyOptions& options) {
  const auto count = [&](std::string_view status) {
    return static_cast<std::size_t>(std::count_if(report.tensors.begin(), report.tensors.end(),
                                                  [&](const TensorComparison& t) { return t.status == status; }));
  };
  const std::size_t total = report.tensors.size(), within = count("within");
  std::string what = counted(total, "tensor");
  if (options.keys_only) {
    what += " by name and shape";
  } else {
    what += ", " + counted(report.values, "value");
  }
  if (report.equal && within == 0) return green(globals, "equal") + ": " + what;
  if (report.equal) {
    return green(globals, "within") +
           fmt::format(": {}; {} differ, within {}", what, grouped(within), thresholds_text(options));
  }
  const auto failing = static_cast<std::size_t>(std::count_if(report.tensors.begin(), report.tensors.end(),
                                                              [](const TensorComparison& t) { return !t.passes(); }));
  std::vector<std::string> parts;
  if (failing > 0) parts.push_back(fmt::format("{} of {}", grouped(failing), counted(total, "tensor")));
  if (!report.missing.empty()) parts.push_back(counted(report.missing.size(), "tensor") + " missing");
  if (!report.unexpected.empty()) parts.push_back(grouped(report.unexpected.size()) + " unexpected");
  if (parts.empty()) parts.push_back(fmt::format("names only; {} {}", what, options.keys_only ? "agree" : "are equal"));
  return red(globals, "different") + fmt::format(": {}", fmt::join(parts, ", "));
}

std::string metrics_json(const TensorComparison& tensor) {
  if (!tensor.measured) return R"("max_abs": null, "rmse": null, "cosine": null, "snr_db": null)";
  std::string text = fmt::format(R"("max_abs": {}, "rmse": {}, "cosine": {}, "snr_db": {}, "different_values": {})",
                                 json_number(tensor.max_abs), json_number(tensor.rmse), json_number(tensor.cosine),
                                 json_number(tensor.snr_db), tensor.different_values);
  if (tensor.different_values > 0) text += fmt::format(R"(, "first_difference": {})", tensor.first_difference);
  if (tensor.nonfinite_mismatches > 0)
    text += fmt::format(R"(, "nonfinite_mismatches": {}, "nans": [{}, {}])", tensor.nonfinite_mismatches,
                        tensor.nans[0], tensor.nans[1]);
  return text;
}

std::string tensor_json(const TensorComparison& tensor) {
  std::string text = "{\"name\": " + json_string(tensor.name);
  if (tensor.candidate_name != tensor.name) text += ", \"candidate_name\": " + json_string(tensor.candidate_name);
  text += fmt::format(R"(, "status": "{}", "dtype": ["{}", "{}"], "shape": [{}])", tensor.status,
                      name(tensor.dtypes[0]), name(tensor.dtypes[1]), fmt::join(tensor.shape, ", "));
  if (tensor.candidate_shape != tensor.shape) {
    text += fmt::format(R"(, "candidate_shape": [{}])", fmt::join(tensor.candidate_shape, ", "));
  }
  return text + ", " + metrics_json(tensor) + "}";
}

}  // namespace

void print_report_text(const Globals& globals, const VerifyReport& report, const VerifyOptions& options) {
  if (globals.quiet) return;
  print(summary_text(globals, report, options) + "\n");
  for (const std::string& explanation : report.explanations) print("  " + printable(explanation) + "\n");
  if (!options.keys_only) print_table(globals, report);
  print_names(globals, "missing in the candidate", report.missing);
  print_names(globals, "only in the candidate", report.unexpected);
}

void print_report_json(const VerifiedPaths& paths, const VerifyReport& report) {
  print_json(fmt::format("{{\"schema\": 1, \"equal\": {}, \"reference\": {}, \"candidate\": {}, \"tensors\": [",
                         report.equal, json_string(paths.reference), json_string(paths.candidate)));
  for (std::size_t i = 0; i < report.tensors.size(); ++i) print_json((i ? ", " : "") + tensor_json(report.tensors[i]));
  print_json(fmt::format("], \"missing\": {}, \"unexpected\": {}, \"explanations\": {}, \"worst\": {}}}\n",
                         json_strings(report.missing), json_strings(report.unexpected),
                         json_strings(report.explanations), report.worst.empty() ? "null" : json_string(report.worst)));
}

void print_whole_text(const Globals& globals, const Model& model, const WholeReport& report) {
  if (globals.quiet) return;
  std::uint64_t values = 0;
  for (const Tensor& tensor : model.tensors) values += element_count(tensor.info.shape);
  const std::string head = report.problems.empty() ? green(globals, "whole") : red(globals, "not whole");
  print(fmt::format("{}: {}, {}, {} read", head, counted(model.tensors.size(), "tensor"), counted(values, "value"),
                    human_size(report.bytes)));
  if (report.records > 0) print(fmt::format(", {} checked", counted(report.records, "CRC-32 value")));
  if (report.manifest) print(", manifest checked");
  print("\n");
  for (const ManifestProblem& problem : report.problems) {
    const std::string& about = problem.tensor.empty() ? problem.file : problem.tensor;
    print(printable(fmt::format("  {}: {}", about, problem.message)) + "\n");
  }
}

void print_whole_json(const Model& model, const WholeReport& report) {
  std::string problems;
  for (const ManifestProblem& problem : report.problems) {
    problems += problems.empty() ? "{" : ", {";
    if (!problem.file.empty()) problems += "\"file\": " + json_string(problem.file) + ", ";
    if (!problem.tensor.empty()) problems += "\"tensor\": " + json_string(problem.tensor) + ", ";
    problems += "\"message\": " + json_string(problem.message) + "}";
  }
  print_json(fmt::format(
      "{{\"schema\": 1, \"equal\": {}, \"reference\": {}, \"candidate\": null, \"tensors\": [], \"missing\": [], "
      "\"unexpected\": [], \"worst\": null, \"checked\": {{\"tensors\": {}, \"bytes\": {}, \"records\": {}, "
      "\"manifest\": {}}}, \"problems\": [{}]}}\n",
      report.problems.empty(), json_string(model.path), model.tensors.size(), report.bytes, report.records,
      report.manifest, problems));
}

}  // namespace wconv::tool
