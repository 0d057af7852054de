#include "convert_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "core/json_text.h"
#include "core/zstd_writer.h"
#include "text_table.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

// Bytes. VmHWM counts this program only; getrusage would count what its parent held before exec.
std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

// `at_most`: paths of those whose `bytes` is a bound.
std::string files_json(const std::vector<FileRecord>& files, const std::string& prefix,
                       const std::set<std::string>& at_most = {}) {
  std::string text;
  for (const FileRecord& file : files) {
    text += fmt::format("{}{{\"path\": {}, \"bytes\": {}", text.empty() ? "" : ", ", json_string(prefix + file.path),
                        file.bytes);
    if (at_most.contains(file.path)) text += ", \"at_most\": true";
    text += file.sha256.empty() ? ", \"sha256\": null}" : fmt::format(", \"sha256\": \"{}\"}}", file.sha256);
  }
  return "[" + text + "]";
}

void print_document(const ConvertSummary& summary, const EngineResult& result,
                    const std::set<std::string>& at_most = {}) {
  print_json(fmt::format(
      "{{\"schema\": 1, \"inputs\": {}, \"outputs\": {}, \"tensors\": {}, \"skipped\": {}, \"warnings\": {}, "
      "\"seconds\": {}, \"peak_memory_bytes\": {}}}\n",
      files_json(result.inputs, ""), files_json(result.outputs, summary.output_prefix, at_most), summary.tensors,
      json_strings(summary.skipped), json_strings(summary.warnings), json_number(summary.seconds), peak_memory()));
}

}  // namespace

void print_plan(const Globals& globals, const ConvertSummary& summary, const Layout& layout, const Model& model,
                std::uint64_t memory_bytes) {
  EngineResult planned;
  std::set<std::string> compressed;  // their sizes are known when they have been written
  for (const OutputFile& file : layout.files) {
    if (file.zstd_level > 0) compressed.insert(file.name);
    planned.outputs.push_back({file.name, file.zstd_level > 0 ? zstd_file_bound(file.size) : file.size, ""});
  }
  sort_by_path(planned.outputs);
  for (const SourceFile& file : model.files) planned.inputs.push_back({file.path, file.bytes, ""});
  if (globals.json) return print_document(summary, planned, compressed);
  for (const FileRecord& file : planned.outputs) {
    print(fmt::format("{}  {}{} bytes\n", printable(summary.output_prefix + file.path),
                      compressed.contains(file.path) ? "at most " : "", grouped(file.bytes)));
  }
  print(fmt::format("would write {}, with {} of memory for weights\n", counted(summary.tensors, "tensor"),
                    human_size(memory_bytes)));
}

void print_result(const Globals& globals, const ConvertSummary& summary, const EngineResult& result) {
  if (globals.json) return print_document(summary, result);
  if (globals.quiet) return;
  std::uint64_t bytes = 0;
  for (const FileRecord& file : result.outputs) {
    bytes += file.bytes;
    print(fmt::format("{}  {}\n", printable(summary.output_prefix + file.path), human_size(file.bytes)));
  }
  const double rate = static_cast<double>(bytes) / std::max(summary.seconds, 1e-3);
  print(fmt::format("wrote {}, {}, in {:.2f} s ({}/s)\n", counted(summary.tensors, "tensor"), human_size(bytes),
                    summary.seconds, human_size(static_cast<std::uint64_t>(rate))));
  if (!summary.skipped.empty()) print(fmt::format("left out {}\n", counted(summary.skipped.size(), "tensor")));
}

}  // namespace wconv::tool
