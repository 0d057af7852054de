#include "core/model_path.h"

#include <sys/stat.h>

#include <filesystem>

#include "core/zstd_file.h"
#include "wconv/error.h"

namespace wconv {

namespace fs = std::filesystem;

void check_relative_path(std::string_view path, std::string_view field) {
  std::string_view wrong;
  if (path.empty() || path == ".") wrong = "names no file";
  if (path.find('\0') != std::string_view::npos) wrong = "holds a NUL byte";
  if (path.find('\\') != std::string_view::npos) wrong = "holds a backslash";
  if (path.starts_with('/') || (path.size() > 1 && path[1] == ':')) wrong = "is an absolute path";
  for (const fs::path& part : fs::path(path)) {
    if (part == "..") wrong = "leaves the model's folder";
  }
  if (!wrong.empty()) fail(ErrorCode::kCorrupt, "{}: '{}' {}; nothing was opened", field, path, wrong);
}

namespace {

bool is_below(const fs::path& folder, const fs::path& path) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

enum class Place { kOutside, kFolder, kCache };

Place place_of(const fs::path& real_folder, const fs::path& real_path) {
  if (is_below(real_folder, real_path)) return Place::kFolder;
  for (fs::path ancestor = real_folder; ancestor.has_relative_path(); ancestor = ancestor.parent_path()) {
    const fs::path snapshots = ancestor.parent_path();
    if (snapshots.filename() == "snapshots")
      return real_path.parent_path() == snapshots.parent_path() / "blobs" ? Place::kCache : Place::kOutside;
  }
  return Place::kOutside;
}

}  // namespace

bool stays_in_model(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path real_folder = fs::canonical(folder, error);
  if (error) return false;
  const fs::path real_path = fs::canonical(path, error);
  return !error && place_of(real_folder, real_path) != Place::kOutside;
}

std::shared_ptr<const File> open_referenced(const File& from, const std::string& path, std::string_view field) {
  check_relative_path(path, field);
  const auto missing = [&] { fail(ErrorCode::kMissing, "{}: '{}' is not there", field, path); };
  const auto refuse = [&](std::string_view what) {
    fail(ErrorCode::kCorrupt, "{}: '{}' {}; put the file itself there", field, path, what);
  };
  if (!from.stored().is_on_disk()) missing();  // bytes in memory have nothing beside them
  const fs::path folder = from.path().find('/') == std::string::npos ? "." : fs::path(from.path()).parent_path();
  std::error_code error;
  const fs::path real_folder = fs::canonical(folder, error);
  const std::string stored = plain_or_zst((folder / path).string());
  const bool packed = stored != (folder / path).string();
  const fs::path real_path = error ? fs::path() : fs::canonical(stored, error);
  if (error) missing();
  const Place place = place_of(real_folder, real_path);
  if (place == Place::kOutside) refuse("is a link that leaves the model's folder");
  if (place == Place::kFolder && real_path != (real_folder / (packed ? path + ".zst" : path)).lexically_normal())
    refuse("is a symbolic link");
  if (!fs::is_regular_file(real_path, error)) refuse("is no regular file");
  auto file = File::open(stored);
  struct stat opened {
  }, checked{};
  if (::fstat(file->descriptor().get(), &opened) != 0 || ::stat(real_path.c_str(), &checked) != 0 ||
      opened.st_dev != checked.st_dev || opened.st_ino != checked.st_ino) {
    refuse("was replaced while it was opened");
  }
  if (place == Place::kFolder && opened.st_nlink > 1) refuse("has several hard links");
  return packed ? unpacked(file) : file;  // by its name: numbers may begin like a zstd frame
}

}  // namespace wconv
