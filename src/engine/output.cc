// Outputs are made beside their place, locked, synced and renamed.
//
// The temporary is ".NAME.wconv-tmp": its lock tells two runs on one output apart, and a run that was killed leaves at
// most this one file or folder, which the next run removes.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <vector>

#include "core/retry.h"
#include "engine/write_all.h"
#include "formats/folder.h"
#include "wconv/engine.h"
#include "wconv/error.h"

namespace wconv {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_errno(const std::string& path, std::string_view doing, int error = errno) {
  throw Error(ErrorCode::kIo, fmt::format("cannot {}: {}", doing, std::strerror(error))).in_file(path);
}

std::string temporary_path(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + ".wconv-tmp")).string();
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<fs::directory_entry> entries_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator entry(folder, error);
  while (error.value() == EINTR) entry = fs::directory_iterator(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) fail_errno(folder, "list it", error.value());
  return entries;
}

void remove_temporary(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno != EISDIR) return;  // a file: needs no descriptor
  std::error_code error;
  do {
    fs::remove_all(path, error);
  } while (error.value() == EINTR);
}

void sync(int descriptor, const std::string& path, std::string_view doing = "sync it") {
  if (retry([&] { return ::fsync(descriptor); }) != 0) fail_errno(path, doing);
}

// Creates and locks the temporary. When another run renamed or removed it between open and lock, tries again.
int open_locked(const std::string& path, bool folder, const std::string& output) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const bool made = folder && ::mkdir(path.c_str(), 0777) == 0;
    if (folder && !made && errno != EEXIST) fail_errno(output, "create it");
    const int flags = (folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_NONBLOCK) | O_NOFOLLOW | O_CLOEXEC;
    int descriptor = folder ? -1 : retry([&] { return ::open(path.c_str(), flags | O_EXCL, 0666); });
    const bool fresh = made || descriptor >= 0;
    if (descriptor < 0) descriptor = retry([&] { return ::open(path.c_str(), flags, 0666); });
    if (descriptor < 0 && errno == ENOENT && folder) continue;
    if (descriptor < 0) {
      const int error = errno;
      if (made) ::rmdir(path.c_str());
      const bool limit = error == EMFILE;  // the lock of each file next to the others needs it to be open
      fail_errno(output, "create its temporary " + path + (limit ? " (a folder as output needs fewer open files)" : ""),
                 error);
    }
    if (retry([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) != 0) {
      const int error = errno;
      ::close(descriptor);
      if (error != EWOULDBLOCK && fresh) remove_temporary(path);
      if (error != EWOULDBLOCK) fail_errno(output, "lock its temporary", error);
      throw Error(ErrorCode::kBusy, "another run is writing this output; try again when it has ended").in_file(output);
    }
    struct stat opened {
    }, named{};
    const bool same = ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
                      opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
    if (same && !folder && (!S_ISREG(opened.st_mode) || opened.st_nlink > 1)) {
      ::close(descriptor);
      throw Error(ErrorCode::kIo, fmt::format("{} is in the way: no regular file, or one with other names", path))
          .in_file(output);
    }
    if (same && fresh) return descriptor;
    if (same) {  // a run that was killed has left it: another mode, other contents
      remove_temporary(path);
    }
    ::close(descriptor);
  }
  throw Error(ErrorCode::kBusy, "other runs keep replacing this output").in_file(output);
}

std::shared_ptr<const Descriptor> make_locked(const std::string& path, bool folder, const std::string& output) {
  const int descriptor = open_locked(path, folder, output);
  try {
    return std::make_shared<Descriptor>(path, folder ? O_RDONLY : O_RDWR, descriptor, Descriptor::Kind::kLocked);
  } catch (...) {
    remove_temporary(path);
    throw;
  }
}

void sync_folder(const std::string& path) {
  const int descriptor =
      retry([&] { return ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) return;  // no permission to read it: the rename itself has happened
  const int result = retry([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  if (result != 0 && error != EINVAL && error != EROFS) fail_errno(path, "sync the folder", error);
}

// Part of a model in a folder of its own: a config.json, and no further folders.
bool is_model_part(const std::string& path) {
  const auto entries = entries_of(path);
  return exists(path + "/config.json") && std::none_of(entries.begin(), entries.end(), [](const auto& entry) {
           return is_folder(entry.path().string());
         });
}

// A folder may be replaced when it is empty or clearly holds a model and nothing else.
void check_replaceable_folder(const std::string& path, bool force) {
  bool empty = true, weights = false;
  for (const fs::directory_entry& entry : entries_of(path)) {
    empty = false;
    const std::string extension = entry.path().extension().string();
    const std::string name = entry.path().filename().string();
    weights = weights || extension == ".zst" || extension == ".safetensors" || extension == ".bin" ||
              extension == ".gguf" || extension == ".onnx" || name == "wconv.json";
    if (!is_folder(entry.path().string()) && !is_model_file(name) && name != "wconv.json") {
      fail(ErrorCode::kUsage,
           "{}: exists and holds '{}', which is no file of a model; wconv replaces only folders that hold a model's "
           "files",
           path, printable(name));
    }
    if (is_folder(entry.path().string()) && !is_model_part(entry.path().string())) {
      fail(ErrorCode::kUsage,
           "{}: exists and holds the folder {}; wconv replaces only folders that hold a model's files", path,
           entry.path().filename().string());
    }
  }
  if (empty) return;
  if (!force) fail(ErrorCode::kUsage, "{}: exists; --force replaces it", path);
  if (!weights) {
    fail(ErrorCode::kUsage, "{}: exists and holds no weights; wconv replaces only folders that hold a model's files",
         path);
  }
}

void check_target(const std::string& path, bool folder, bool force) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISDIR(status.st_mode)) {
    if (folder) return check_replaceable_folder(path, force);
    fail(ErrorCode::kUsage, "{}: is a folder; the output is a file", path);
  }
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    fail(ErrorCode::kUsage, "{}: is neither a regular file nor a link; wconv does not replace it", path);
  }
  if (folder && S_ISREG(status.st_mode)) fail(ErrorCode::kUsage, "{}: is a file; the output is a folder", path);
  if (!force) fail(ErrorCode::kUsage, "{}: exists; --force replaces it", path);
}

// What replaces a file or folder has its mode; a link has none of its own. False: nothing is replaced.
bool keep_mode(int descriptor, const std::string& path) {
  struct stat old {};
  if (::lstat(path.c_str(), &old) != 0 || S_ISLNK(old.st_mode)) return false;
  if (::fchmod(descriptor, old.st_mode & 07777) != 0) fail_errno(path, "keep its mode");
  return true;
}

void allocate(int descriptor, std::uint64_t size, const std::string& path) {
  if (retry([&] { return ::ftruncate(descriptor, 0); }) != 0) fail_errno(path, "truncate it");
  if (size == 0) return;
  int result = retry([&] { return ::fallocate(descriptor, 0, 0, static_cast<off_t>(size)); });
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
    result = retry([&] { return ::ftruncate(descriptor, static_cast<off_t>(size)); });
  if (result == 0) return;
  const int error = errno;
  struct statvfs disk {};
  if (error == ENOSPC && ::fstatvfs(descriptor, &disk) == 0) {
    throw Error(ErrorCode::kIo, fmt::format("the disk is full: it needs {} bytes, {} are free", size,
                                            std::uint64_t{disk.f_bavail} * disk.f_frsize))
        .in_file(path);
  }
  fail_errno(path, fmt::format("allocate {} bytes", size), error);
}

}  // namespace

struct Output::State {
  struct Item {
    std::string final_path, temporary;
    std::shared_ptr<const Descriptor> descriptor;
    bool renamed = false, replaced = false;
  };
  std::string path, parent, lock_path;
  bool folder = false, force = false, committed = false;
  std::set<std::string> parts;  // folders in the folder
  std::shared_ptr<const Descriptor> lock;
  std::vector<Item> items;
  std::vector<std::string> replaced;  // paths

  void rename_into_place(const std::string& from, const std::string& to) {
    if (force) {
      if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, "rename its temporary");
      return;
    }
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EINVAL || errno == ENOSYS) {  // the file system cannot say "only if absent"
      if (!exists(to) && ::rename(from.c_str(), to.c_str()) == 0) return;
      if (exists(to)) errno = EEXIST;
    }
    if (errno != EEXIST && errno != ENOTEMPTY) fail_errno(to, "rename its temporary");
    throw Error(ErrorCode::kBusy, "appeared while this run was making it; it was left alone").in_file(to);
  }

  void commit_folder() {
    for (Item& item : items) {
      const Descriptor::Use file = item.descriptor->use();
      keep_mode(file.get(), item.final_path);
      sync(file.get(), item.final_path);
    }
    for (const std::string& part : parts) sync_folder(lock_path + "/" + part);
    const Descriptor::Use whole = lock->use();
    keep_mode(whole.get(), path);
    sync(whole.get(), path, "sync the folder");
    if (!exists(path)) {
      rename_into_place(lock_path, path);
    } else if (::rename(lock_path.c_str(), path.c_str()) != 0) {  // works where the old folder is empty
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail_errno(path, "rename its temporary");
      check_target(path, folder, force);
      if (::renameat2(AT_FDCWD, lock_path.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
        fail_errno(path, "exchange it with the new folder");
      }
      remove_temporary(lock_path);
    }
    committed = true;
    sync_folder(parent);
  }

  void commit_files() {
    for (Item& item : items) {
      const Descriptor::Use file = item.descriptor->use();
      item.replaced = keep_mode(file.get(), item.final_path);
      sync(file.get(), item.final_path);
    }
    for (Item& item : items) {
      rename_into_place(item.temporary, item.final_path);
      item.renamed = true;
    }
    committed = true;
    const auto was_lock = [&](const Item& item) { return item.temporary == lock_path; };
    if (std::none_of(items.begin(), items.end(), was_lock)) ::unlink(lock_path.c_str());
    for (const std::string& old : replaced) {
      if (::unlink(old.c_str()) != 0 && errno != ENOENT) fail_errno(old, "remove it, which the new output replaces");
    }
    sync_folder(parent);
  }

  void discard() {
    for (const Item& item : items) {
      const bool ours = item.renamed && !item.replaced;  // part of a set that did not become whole
      if (!folder) ::unlink(ours ? item.final_path.c_str() : item.temporary.c_str());
    }
    remove_temporary(lock_path);
  }
};

void Output::check_place(const std::string& path, bool folder, bool force) {
  const fs::path whole(path);
  if (path.empty() || whole.filename() == "." || whole.filename() == ".." || path.find('\0') != std::string::npos) {
    fail(ErrorCode::kUsage, "'{}' is no name for an output", path);
  }
  constexpr std::size_t kMaxName = 255 - std::string_view("..wconv-tmp").size();
  if (whole.filename().string().size() > kMaxName)
    fail(ErrorCode::kUsage, "{}: the name has {} bytes; {} are allowed, for its temporary has a longer one", path,
         whole.filename().string().size(), kMaxName);
  const std::string parent = whole.parent_path().string();
  std::error_code error;
  if (!parent.empty() && !fs::is_directory(parent, error)) {
    if (error && error.value() != ENOENT && error.value() != ENOTDIR)
      fail_errno(parent, "look at the folder", error.value());
    fail(ErrorCode::kUsage, "{}: the folder {} does not exist", path, parent);
  }
  check_target(path, folder, force);
}

Output::Output(std::string path, bool folder, bool force) : state_(std::make_unique<State>()) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  check_place(path, folder, force);
  state_->path = path;
  state_->parent = fs::path(path).parent_path().string();
  state_->folder = folder;
  state_->force = force;
  state_->lock_path = temporary_path(path);
  state_->lock = make_locked(state_->lock_path, folder, path);
  try {
    check_target(path, folder, force);  // another run may have finished in between
  } catch (...) {
    state_->discard();
    throw;
  }
}

Output::~Output() {
  if (!state_->committed) state_->discard();
}

const Descriptor& Output::create(const std::string& name, std::uint64_t size) {
  State& state = *state_;
  State::Item item;
  if (state.folder) {
    item.final_path = state.path + "/" + name;
    item.temporary = state.lock_path + "/" + name;
    const std::string part = fs::path(name).parent_path().string();  // one level: Layout
    if (!part.empty() && state.parts.insert(part).second && ::mkdir((state.lock_path + "/" + part).c_str(), 0777) != 0)
      fail_errno(state.path + "/" + part, "create it");
    constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    const int descriptor = retry([&] { return ::open(item.temporary.c_str(), kFlags | O_CREAT | O_EXCL, 0666); });
    if (descriptor < 0) fail_errno(item.final_path, "create it");
    item.descriptor = std::make_shared<Descriptor>(item.temporary, kFlags, descriptor, Descriptor::Kind::kOutput);
  } else {
    item.final_path = (fs::path(state.parent) / name).string();
    item.temporary = temporary_path(item.final_path);
    if (item.temporary == state.lock_path) {
      item.descriptor = state.lock;
    } else {
      check_target(item.final_path, false, state.force);
      item.descriptor = make_locked(item.temporary, false, item.final_path);
    }
  }
  state.items.push_back(item);
  allocate(item.descriptor->use().get(), size, item.final_path);
  return *state.items.back().descriptor;
}

void Output::add(const std::string& name, std::string_view text) {
  const Descriptor& descriptor = create(name, text.size());
  std::rotate(state_->items.begin(), state_->items.end() - 1, state_->items.end());
  engine::write_all(descriptor, 0, std::as_bytes(std::span(text)), state_->items.front().final_path);
}

void Output::replaces(const std::string& name) {
  state_->replaced.push_back((fs::path(state_->parent) / name).string());
}

void Output::commit() {
  if (state_->folder) {
    state_->commit_folder();
  } else {
    state_->commit_files();
  }
}

}  // namespace wconv
