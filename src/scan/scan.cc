// Which files a model has.
#include "wconv/scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "core/model_path.h"
#include "core/zstd_file.h"
#include "formats/folder.h"
#include "scan/file_scan.h"
#include "wconv/error.h"
#include "wconv/interrupt.h"

namespace wconv {
namespace scan {
namespace {

namespace fs = std::filesystem;

// Folders that tools keep beside a model and that nothing loads from, unless an index says so.
constexpr auto kTools = std::to_array<std::string_view>(
    {".git", ".github", ".cache", ".huggingface", ".locks", ".no_exist", ".ipynb_checkpoints"});

class FolderScan {
 public:
  FolderScan(std::string root, Sink& sink) : root_(std::move(root)), sink_(sink), files_(sink) {}

  void run() {
    scan_folder(root_, 0);
    for (std::size_t i = 0; i < named_.size(); ++i) {  // which an index among them makes longer
      const std::string path = plain_or_zst(named_[i]);
      std::error_code ignored;
      if (fs::exists(fs::symlink_status(path, ignored))) scan_entry(path, kMaxDepth);
    }
  }

 private:
  static constexpr int kMaxDepth = 8;

  void scan_folder(const std::string& folder, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (!error && !folders_.insert(real.string()).second) return;  // a link to a folder around it or beside it
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      paths.push_back(entry->path());
    }
    if (error) throw Error(ErrorCode::kIo, fmt::format("cannot list the folder: {}", error.message())).in_file(folder);
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      const bool tool = std::find(kTools.begin(), kTools.end(), path.filename().string()) != kTools.end();
      if (!tool || !fs::is_directory(path, error)) scan_entry(path.string(), depth);
    }
  }

  void scan_entry(const std::string& path, int depth) {
    const std::string plain = fs::path(path).lexically_normal().string();
    std::error_code ignored;
    if (!seen_.insert(plain).second) return;
    sink_.set_file(path);
    if (!stays_in_model(root_, path)) {
      sink_.add(Verdict::kDanger, "path", "", "is a link that leads nowhere or leaves the model's folder", "", 0);
    } else if (fs::is_directory(path, ignored)) {
      if (depth < kMaxDepth) return scan_folder(path, depth + 1);
      sink_.add(Verdict::kUnknown, "too-deep", "",
                fmt::format("folders lie in each other more than {} deep; it was not looked into", kMaxDepth), "", 0);
    } else if (fs::is_regular_file(path, ignored)) {
      const fs::path folder = fs::path(path).parent_path();
      for (const std::string& name : files_.scan(path, true)) named_.push_back((folder / name).string());
    } else {
      sink_.add(Verdict::kUnknown, "unreadable", "", "is neither a file nor a folder; it was not looked into", "", 0);
    }
  }

  std::string root_;
  Sink& sink_;
  FileScan files_;
  std::set<std::string> folders_, seen_;
  std::vector<std::string> named_;  // by indexes
};

}  // namespace
}  // namespace scan

ScanReport scan_model(const std::string& path) {
  scan::Sink sink;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    scan::FolderScan(path, sink).run();
  } else if (is_index_name(path)) {
    const std::string folder = scan::fs::path(path).parent_path().string();
    scan::FolderScan(folder.empty() ? "." : folder, sink).run();
  } else {
    scan::FileScan(sink).scan(path, false);
  }
  check_interrupted();  // what could not be read for that is no finding
  return sink.take();
}

}  // namespace wconv
