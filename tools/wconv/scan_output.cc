#include "scan_output.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "core/json_text.h"
#include "text_table.h"

namespace wconv::tool {
namespace {

std::string place(const ScanItem& item, const std::string& model) {
  std::string text = item.file == model ? "" : item.file;
  if (!item.part.empty()) text += (text.empty() ? "" : ": ") + item.part;
  return printable(text) + fmt::format("{}byte {}", text.empty() ? "" : ", ", item.offset);
}

std::string_view sarif_level(Verdict verdict) {
  static constexpr std::array<std::string_view, 4> kLevels = {"none", "note", "error", "error"};
  return kLevels[static_cast<std::size_t>(verdict)];
}

// Of a path in a file URI reference (RFC 3986).
std::string uri(std::string_view path) {
  static constexpr std::string_view kPlain = "-._~/";
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte)) || kPlain.find(c) != std::string_view::npos;
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return path.starts_with('/') ? "file://" + text : text;
}

std::string sarif_result(const ScanItem& item) {
  std::string location =
      fmt::format(R"({{"physicalLocation": {{"artifactLocation": {{"uri": {}}})", json_string(uri(item.file)));
  if (item.part.empty()) {
    location += fmt::format(R"(, "region": {{"byteOffset": {}, "byteLength": 0}}}})", item.offset);
  } else {  // the offset counts within the part, which may have been compressed
    location += fmt::format(R"(}}, "logicalLocations": [{{"fullyQualifiedName": {}}}])", json_string(item.part));
  }
  std::string message = item.message;
  if (!item.part.empty()) message += fmt::format(" (in {}, byte {})", item.part, item.offset);
  return fmt::format(R"({{"ruleId": {}, "level": "{}", "message": {{"text": {}}}, "locations": [{}}}], )"
                     R"("occurrenceCount": {}, "properties": {{"verdict": "{}", "what": {}}}}})",
                     json_string(item.code), sarif_level(item.verdict), json_string(message), location, item.count,
                     verdict_name(item.verdict), json_string(item.what));
}

}  // namespace

void print_scan_text(const Globals& globals, const Scanned& scanned) {
  const auto& [model, report] = scanned;
  const std::string verdict(verdict_name(report.worst()));
  print(bold(globals, fmt::format("scan of {}", printable(model))) + ": " +
        (report.refused() ? red(globals, verdict) : green(globals, verdict)) +
        fmt::format(" ({} in {})\n", counted(report.pickles, "pickle"), counted(report.files, "file")));
  TextTable table("llrll");
  for (const ScanItem& item : report.items) {
    table.add({std::string(verdict_name(item.verdict)),
               item.what.empty() ? item.code : shortened(printable(item.what), 60),
               item.count > 1 ? fmt::format("×{}", item.count) : "", place(item, model),
               item.verdict == Verdict::kData ? "" : printable(item.message)});
  }
  print(table.text("  "));
}

std::string scan_json(const ScanReport& report) {
  std::string text = fmt::format(R"({{"verdict": "{}", "files": {}, "pickles": {}, "items": [)",
                                 verdict_name(report.worst()), report.files, report.pickles);
  bool first = true;
  for (const ScanItem& item : report.items) {
    text += fmt::format(
        R"({}{{"verdict": "{}", "code": {}, "what": {}, "message": {}, "file": {}, "part": {}, "offset": {}, "count": {}}})",
        first ? "" : ", ", verdict_name(item.verdict), json_string(item.code), json_string(item.what),
        json_string(item.message), json_string(item.file), json_string(item.part), item.offset, item.count);
    first = false;
  }
  return text + "]}";
}

std::string scan_sarif(const std::vector<Scanned>& scanned) {
  std::string results, rules;
  std::map<std::string, bool> codes;
  for (const auto& [model, report] : scanned) {
    for (const ScanItem& item : report.items) {
      if (item.verdict == Verdict::kData) continue;
      codes[item.code] = true;
      results += (results.empty() ? "\n    " : ",\n    ") + sarif_result(item);
    }
  }
  for (const auto& [code, used] : codes)
    rules += fmt::format(R"({}{{"id": {}}})", rules.empty() ? "" : ", ", json_string(code));
  return fmt::format(
      "{{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", \"version\": \"2.1.0\", \"runs\": [{{\n"
      "  \"tool\": {{\"driver\": {{\"name\": \"wconv\", \"version\": \"{}\", \"rules\": [{}]}}}},\n"
      "  \"results\": [{}]}}]}}\n",
      WCONV_VERSION, rules, results);
}

}  // namespace wconv::tool
