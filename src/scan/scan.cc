// Which files a model has, and what looks into each.
#include "wconv/scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/model_path.h"
#include "core/zstd_file.h"
#include "scan/region.h"
#include "scan/text_scan.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/interrupt.h"

namespace wconv {
namespace scan {
namespace {

namespace fs = std::filesystem;

// Formats without code: what their metadata holds that other programs run.
void scan_metadata(const Model& model, Sink& sink) {
  for (const auto& [key, value] : model.metadata) {
    const std::string* text = value.as_string();
    if (text && key.find("template") != std::string::npos) scan_template(*text, key, sink);
  }
  for (const Finding& finding : model.findings) {
    if (finding.severity == Severity::kDanger) sink.add(Verdict::kDanger, finding.code, "", finding.message, "", 0);
    if (finding.code == "custom-operator") sink.add(Verdict::kNote, finding.code, "", finding.message, "", 0);
  }
}

const FormatReader* reader_of(const File& file) {
  std::vector<std::byte> head(std::min<std::uint64_t>(file.size(), 4096));
  file.read(0, head);
  const auto found = std::find_if(readers().begin(), readers().end(), [&](const auto* r) { return r->probe(head); });
  return found == readers().end() ? nullptr : *found;
}

void scan_weights(const std::shared_ptr<const File>& file, Sink& sink) {
  const FormatReader* reader = reader_of(*file);
  const bool other = reader && reader->name() != "pytorch";  // its first bytes may look like a pickle's by chance
  const Region whole{file, 0, file->size(), "", !other, 0, false};
  const bool has_code = scan_region(whole, sink);
  if (other) {
    try {
      scan_metadata(reader->open(file, {}), sink);
    } catch (const Error& error) {
      const bool path = error.message().find("nothing was opened") != std::string::npos;
      sink.add(path ? Verdict::kDanger : Verdict::kUnknown, path ? "path" : "unreadable", "", error.message(), "",
               error.offset().value_or(0));
    }
  } else if (!has_code && !reader) {
    sink.add(Verdict::kUnknown, "unknown-format", "", "is in no format that wconv knows; what loads it may run code",
             "", 0);
  }
}

void scan_file(const std::string& path, bool in_folder, Sink& sink) {
  const auto stored = File::open(path);
  sink.set_file(path);
  sink.count_file();
  std::shared_ptr<const File> file;
  try {
    file = unpacked(stored);
  } catch (const Error& error) {
    return sink.add(Verdict::kUnknown, "unreadable", "", error.message(), "", error.offset().value_or(0));
  }
  sink.allow(file->size());
  const std::string extension = fs::path(without_zst(path)).extension().string();
  if (extension == ".json") return scan_json(file, sink);
  if (extension == ".jinja") {
    std::string text(std::min<std::uint64_t>(file->size(), 16 * 1024 * 1024), '\0');
    file->read(0, std::as_writable_bytes(std::span(text)));
    return scan_template(text, "", sink);
  }
  if (in_folder && extension == ".py") {
    return sink.add(Verdict::kNote, "remote-code", fs::path(path).filename().string(),
                    "is Python code, which transformers runs under trust_remote_code", "", 0);
  }
  static const std::set<std::string> kText = {".txt",           ".md",   ".model", ".tiktoken", ".vocab",
                                              ".gitattributes", ".yaml", ".yml",   ".csv",      ".png",
                                              ".jpg",           ".pdf",  ""};
  if (in_folder && kText.contains(extension) && !reader_of(*file)) return;
  scan_weights(file, sink);
}

void scan_folder(const std::string& folder, const std::string& root, int depth, Sink& sink) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) throw Error(ErrorCode::kIo, fmt::format("cannot list the folder: {}", error.message())).in_file(folder);
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (path.filename().string().starts_with('.')) continue;
    sink.set_file(path.string());
    if (!stays_in_model(root, path.string())) {
      sink.add(Verdict::kDanger, "path", "", "is a link that leads nowhere or leaves the model's folder", "", 0);
    } else if (fs::is_directory(path, error)) {
      if (depth < 2) scan_folder(path.string(), root, depth + 1, sink);
    } else if (fs::is_regular_file(path, error)) {
      scan_file(path.string(), true, sink);
    }
  }
}

}  // namespace
}  // namespace scan

ScanReport scan_model(const std::string& path) {
  scan::Sink sink;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    scan::scan_folder(path, path, 0, sink);
  } else if (path.ends_with(".index.json")) {
    const std::string folder = scan::fs::path(path).parent_path().string();
    scan::scan_folder(folder.empty() ? "." : folder, folder.empty() ? "." : folder, 0, sink);
  } else {
    scan::scan_file(path, false, sink);
  }
  check_interrupted();  // what could not be read for that is no finding
  return sink.take();
}

}  // namespace wconv
