#include "formats/model_path.h"

#include <filesystem>

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

}  // namespace

bool stays_in_model(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path real_folder = fs::canonical(folder, error);
  if (error) return false;
  const fs::path real_path = fs::canonical(path, error);
  if (error) return false;
  if (is_below(real_folder, real_path)) return true;
  for (fs::path ancestor = real_folder; ancestor.has_relative_path(); ancestor = ancestor.parent_path()) {
    const fs::path snapshots = ancestor.parent_path();
    if (snapshots.filename() == "snapshots") return real_path.parent_path() == snapshots.parent_path() / "blobs";
  }
  return false;
}

}  // namespace wconv
