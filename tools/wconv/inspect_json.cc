// `wconv inspect --json`: one line, written as a stream.
#include <fmt/format.h>

#include "core/json_text.h"
#include "inspection.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::tool {
namespace {

std::string stats_json(const TensorStats& stats) {
  const auto number = [](double value) { return json_number(value); };
  std::string text = fmt::format(
      R"({{"count": {}, "min": {}, "max": {}, "mean": {}, "sd": {}, "zeros": {}, "nan": {}, "infinite": {}, "percentiles": {{)",
      stats.count, number(stats.min), number(stats.max), number(stats.mean), number(stats.sd), stats.zeros, stats.nans,
      stats.infinities);
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    text += fmt::format(R"({}"{}": {})", i ? ", " : "", kPercentiles[i], number(stats.percentiles[i]));
  }
  return text + "}}";
}

std::string tensor_json(const Tensor& tensor, const std::string* tied_to, const TensorMeasures* measures) {
  std::string text =
      fmt::format(R"({{"name": {}, "dtype": "{}", "shape": [{}], "bytes": {}, "file": {}, "offset": {})",
                  json_string(tensor.info.name), name(tensor.info.dtype), fmt::join(tensor.info.shape, ", "),
                  tensor.data->size_bytes(), tensor.source_file ? json_string(tensor.source_file->path()) : "null",
                  tensor.source_offset);
  if (tied_to) text += ", \"tied_to\": " + json_string(*tied_to);
  if (measures && !measures->sha256.empty()) text += ", \"sha256\": \"" + measures->sha256 + "\"";
  if (measures && measures->stats) text += ", \"stats\": " + stats_json(*measures->stats);
  return text + "}";
}

std::string files_json(const Inspection& inspection) {
  std::string text;
  for (std::size_t f = 0; f < inspection.model.files.size(); ++f) {
    const SourceFile& file = inspection.model.files[f];
    text += fmt::format("{}{{\"path\": {}, \"bytes\": {}", f ? ", " : "", json_string(file.path), file.bytes);
    if (inspection.hash) text += ", \"sha256\": \"" + inspection.measures.file_sha256[f] + "\"";
    text += "}";
  }
  return "[" + text + "]";
}

}  // namespace

void print_inspection_json(const Inspection& inspection) {
  const Model& model = inspection.model;
  print_json(fmt::format(R"({{"schema": 1, "path": {}, "format": "{}", "files": {})", json_string(model.path),
                         model.format, files_json(inspection)));
  if (!model.architecture.empty()) print_json(", \"architecture\": " + json_string(model.architecture));
  print_json(", \"metadata\": {");
  bool first = true;
  for (const auto& [key, value] : model.metadata) {
    print_json((first ? "" : ", ") + json_string(key) + ": " + metadata_json(value));
    first = false;
  }
  print_json("}, \"tensors\": [");
  const Ties ties(model);
  for (std::size_t i = 0; i < inspection.shown.size(); ++i) {
    const std::size_t index = inspection.shown[i];
    const TensorMeasures* measures = inspection.stats || inspection.hash ? &inspection.measures.tensors[i] : nullptr;
    print_json((i ? ", " : "") + tensor_json(model.tensors[index], ties.first_name(index), measures));
  }
  const Totals totals = totals_of(model);
  print_json(fmt::format(R"(], "totals": {{"tensors": {}, "parameters": {}, "bytes": {}}}, "findings": [)",
                         totals.tensors, totals.parameters, totals.bytes));
  first = true;
  for (const Finding& finding : model.findings) {
    print_json(fmt::format(R"({}{{"severity": "{}", "code": {}, "message": {}}})", first ? "" : ", ",
                           severity_name(finding.severity), json_string(finding.code), json_string(finding.message)));
    first = false;
  }
  print_json("]");
  if (!inspection.scan.empty()) print_json(", \"scan\": " + inspection.scan);
  print_json("}\n");
}

}  // namespace wconv::tool
