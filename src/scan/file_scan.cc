#include "scan/file_scan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/not_a_model.h"
#include "core/part_name.h"
#include "core/zstd_file.h"
#include "scan/region.h"
#include "scan/text_scan.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

namespace fs = std::filesystem;

// What a file is for, by its name. Only where its content is nothing else.
enum class Use : std::uint8_t { kWeights, kJson, kTemplate, kPython, kText };

Use use_of(const std::string& path, bool in_folder) {
  struct Ending {
    std::string_view text;
    Use use;
    bool anywhere;  // false: only beside weights
  };
  static constexpr auto kEndings = std::to_array<Ending>({{".json", Use::kJson, true},
                                                          {".jinja", Use::kTemplate, true},
                                                          {".py", Use::kPython, false},
                                                          {".txt", Use::kText, false},
                                                          {".md", Use::kText, false},
                                                          {".model", Use::kText, false},
                                                          {".tiktoken", Use::kText, false},
                                                          {".vocab", Use::kText, false},
                                                          {".yaml", Use::kText, false},
                                                          {".yml", Use::kText, false},
                                                          {".csv", Use::kText, false},
                                                          {".png", Use::kText, false},
                                                          {".jpg", Use::kText, false},
                                                          {".pdf", Use::kText, false},
                                                          {"", Use::kText, false}});
  const std::string extension = fs::path(without_zst(path)).extension().string();
  const auto found = std::find_if(kEndings.begin(), kEndings.end(),
                                  [&](const Ending& e) { return e.text == extension && (e.anywhere || in_folder); });
  return found == kEndings.end() ? Use::kWeights : found->use;
}

// No format of weights and no binary pickle is free of control characters. Pickles of protocol 0 may be: text that
// begins with one of their opcodes is one where it holds a name.
bool is_text(std::span<const std::byte> head) {
  return std::none_of(head.begin(), head.end(), [](std::byte byte) {
    const int c = std::to_integer<int>(byte);
    return c < 0x20 && (c < '\b' || c > '\r') && c != 0x1b;
  });
}

const FormatReader* reader_of(std::span<const std::byte> head) {
  const auto found = std::find_if(readers().begin(), readers().end(), [&](const auto* r) { return r->probe(head); });
  return found == readers().end() ? nullptr : *found;
}

// "missing": what should be there is not, so nothing was judged.
std::string_view code_of(const Error& error) { return error.code() == ErrorCode::kMissing ? "missing" : "unreadable"; }

std::string plain_path(const std::string& path) { return fs::path(without_zst(path)).lexically_normal().string(); }

}  // namespace

// What metadata holds that other programs run.
void FileScan::scan_metadata(const Model& model) {
  for (const auto& [key, value] : model.metadata) {
    const std::string* text = value.as_string();
    if (text && key.find("template") != std::string::npos) scan_template(*text, key, sink_);
  }
  for (const Finding& finding : model.findings) {
    if (finding.severity == Severity::kDanger) sink_.add(Verdict::kDanger, finding.code, "", finding.message, "", 0);
    if (finding.code == "custom-operator") sink_.add(Verdict::kNote, finding.code, "", finding.message, "", 0);
    // Of values that differ only those of the first part were looked into.
    if (finding.code == "part-metadata") sink_.add(Verdict::kUnknown, finding.code, "", finding.message, "", 0);
  }
  for (const SourceFile& source : model.files) parts_.insert(plain_path(source.path));
}

// A later part holds tensors; its metadata is that of the model, which the first part opens.
void FileScan::scan_later_part(const FormatReader& reader, const std::string& path) {
  if (parts_.contains(plain_path(path))) return;
  const auto part = parse_part_name(path);
  if (!part || part->ending != ".gguf")
    fail(ErrorCode::kMissing, "is a later part of a split model, and its name does not say which is the first");
  const std::string first = part_name(part->stem, 1, part->count, part->ending);
  scan_metadata(reader.open(open_unpacked(first), {}));
  if (!parts_.contains(plain_path(path)))
    fail(ErrorCode::kCorrupt, "is no part of the model that {} begins", printable(fs::path(first).filename().string()));
}

// Formats without code.
void FileScan::scan_model_data(const FormatReader& reader, const std::shared_ptr<const File>& file) {
  try {
    try {
      scan_metadata(reader.open(file, {}));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      scan_later_part(reader, file->path());
    }
  } catch (const Error& error) {
    const bool path = error.message().find("nothing was opened") != std::string::npos;
    sink_.add(path ? Verdict::kDanger : Verdict::kUnknown, std::string(path ? "path" : code_of(error)), "",
              error.message(), "", error.offset().value_or(0));
  }
}

// Called weights and in no format: a Git LFS pointer, an error page, or what nobody knows.
void FileScan::add_unknown_format(const File& file, std::span<const std::byte> head) {
  try {
    refuse_known_impostors(file, head, false);
    sink_.add(Verdict::kUnknown, "unknown-format", "", "is in no format that wconv knows; what loads it may run code",
              "", 0);
  } catch (const Error& error) {
    const bool missing = error.code() == ErrorCode::kMissing;
    sink_.add(Verdict::kUnknown, missing ? "missing" : "unknown-format", "", error.message(), "", 0);
  }
}

void FileScan::scan_template_file(const File& file) {
  constexpr std::uint64_t kMax = 16 * 1024 * 1024;
  if (file.size() > kMax)
    sink_.add(Verdict::kUnknown, "chat-template", "", "only its first 16 MiB were looked through", "", kMax);
  std::string text(std::min(file.size(), kMax), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  scan_template(text, "", sink_);
}

std::vector<std::string> FileScan::scan(const std::string& path, bool in_folder) {
  const auto stored = File::open(path);
  sink_.set_file(path);
  sink_.count_file();
  std::shared_ptr<const File> file;
  try {
    file = unpacked(stored);
  } catch (const Error& error) {
    sink_.add(Verdict::kUnknown, "unreadable", "", error.message(), "", error.offset().value_or(0));
    return {};
  }
  sink_.allow(file->size());
  std::vector<std::byte> head(std::min<std::uint64_t>(file->size(), 4096));
  file->read(0, head);
  const Use use = use_of(path, in_folder);
  const bool text = use != Use::kWeights && is_text(head);
  const FormatReader* reader = text ? nullptr : reader_of(head);
  const bool other = reader && reader->name() != "pytorch";  // its first bytes may look like a pickle's by chance
  const bool has_code = scan_region({file, 0, file->size(), "", !other && !text, 0, false}, sink_);
  if (other) scan_model_data(*reader, file);
  // Text can be a pickle too, and a template begin with anything.
  if (use == Use::kTemplate) scan_template_file(*file);
  if (use == Use::kPython) {
    sink_.add(Verdict::kNote, "remote-code", fs::path(path).filename().string(),
              "is Python code, which transformers runs under trust_remote_code", "", 0);
  }
  if (use == Use::kJson && (text || (!has_code && !reader))) return scan_json(file, sink_);
  if (use == Use::kWeights && !has_code && !reader) add_unknown_format(*file, head);
  return {};
}

}  // namespace wconv::scan
