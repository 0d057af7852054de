#include "wconv/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/retry.h"
#include "wconv/error.h"
#include "wconv/interrupt.h"

namespace wconv {
namespace {

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

std::shared_ptr<const File> File::open(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw Error(ErrorCode::kUsage, "a path cannot hold a NUL byte").in_file(path);
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const int descriptor = retry([&] { return ::open(path.c_str(), kFlags); });
  if (descriptor < 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR;
    struct stat link {};
    const bool dangling = missing && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    const char* why = dangling  ? "is a link to a file that is not there; in a download cache: download the model again"
                      : missing ? "no such file"
                                : std::strerror(error);
    throw Error(missing ? ErrorCode::kMissing : ErrorCode::kIo, why).in_file(path);
  }
  std::shared_ptr<File> file(new File);
  file->path_ = path;
  file->descriptor_ = std::make_unique<Descriptor>(path, kFlags, descriptor, Descriptor::Kind::kInput);
  const struct stat& status = file->descriptor_->status();
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorCode::kUsage, "{}: is {}; a model is a regular file or a folder that holds one", path,
         kind_of(status.st_mode));
  }
  file->size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

std::shared_ptr<const File> File::from_bytes(std::string path, std::span<const std::byte> bytes) {
  std::shared_ptr<File> file(new File);
  file->path_ = std::move(path);
  file->size_ = bytes.size();
  file->bytes_.assign(bytes.begin(), bytes.end());
  return file;
}

std::shared_ptr<const File> File::from_content(std::shared_ptr<const File> stored,
                                               std::unique_ptr<const FileContent> content) {
  std::shared_ptr<File> file(new File);
  file->path_ = stored->path();
  file->size_ = content->size();
  file->stored_ = std::move(stored);
  file->content_ = std::move(content);
  return file;
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  check_interrupted();
  if (!descriptor_) {
    if (offset > size_ || out.size() > size_ - offset) {
      throw Error(ErrorCode::kIo, "read past the end").in_file(path_).at(offset);
    }
    if (content_) return content_->read(offset, out);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return;
  }
  if (out.empty()) return;
  const Descriptor::Use descriptor = descriptor_->use();
  while (!out.empty()) {
    const std::size_t size = std::min<std::size_t>(out.size(), std::size_t{1} << 30);
    const ssize_t got = ::pread(descriptor.get(), out.data(), size, static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorCode::kIo, fmt::format("cannot read: {}", std::strerror(errno))).in_file(path_).at(offset);
    }
    if (got == 0) {
      throw Error(ErrorCode::kIo, fmt::format("the file ended here, but had {} bytes when it was opened: it was "
                                              "changed during the run",
                                              size_))
          .in_file(path_)
          .at(offset);
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void File::check_unchanged() const {
  if (stored_) return stored_->check_unchanged();
  if (!descriptor_) return;
  struct stat status {};
  if (::fstat(descriptor_->use().get(), &status) != 0) throw Error(ErrorCode::kIo, std::strerror(errno)).in_file(path_);
  if (static_cast<std::uint64_t>(status.st_size) != size_ ||
      nanoseconds(status.st_mtim) != nanoseconds(descriptor_->status().st_mtim)) {
    const std::string how = static_cast<std::uint64_t>(status.st_size) == size_
                                ? "it was written to"
                                : fmt::format("{} bytes at the start, {} now", size_, status.st_size);
    throw Error(ErrorCode::kIo, fmt::format("was changed during the run ({})", how)).in_file(path_);
  }
}

}  // namespace wconv
