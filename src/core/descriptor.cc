#include "wconv/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string_view>

#include "core/retry.h"
#include "wconv/error.h"

namespace wconv {
namespace {

// Of the process's limit a quarter each are inputs and outputs that stay open, an eighth each inputs and outputs that
// are open for one use; the last quarter is for all else.
class Quota {
 public:
  bool keep() {
    const std::lock_guard lock(mutex_);
    if (kept_ >= limit() / 4) return false;
    ++kept_;
    return true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    --kept_;
  }
  void begin_use() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return uses_ < std::max<rlim_t>(1, limit() / 8); });
    ++uses_;
  }
  void end_use() {
    const std::lock_guard lock(mutex_);
    --uses_;
    ended_.notify_one();
  }

 private:
  static rlim_t limit() {
    rlimit descriptors{};
    return ::getrlimit(RLIMIT_NOFILE, &descriptors) == 0 ? descriptors.rlim_cur : 64;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  rlim_t kept_ = 0, uses_ = 0;
};

Quota& quota(Descriptor::Kind kind) {
  static Quota inputs, outputs;
  return kind == Descriptor::Kind::kInput ? inputs : outputs;
}

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    throw Error(ErrorCode::kIo, fmt::format("cannot get its status: {}", std::strerror(errno))).in_file(path);
  return status;
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool same_content(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

Descriptor::Descriptor(std::string path, int flags, int descriptor, Kind kind)
    : path_(std::move(path)), flags_(flags), descriptor_(descriptor), kind_(kind) {
  try {
    status_ = status_of(descriptor, path_);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (kind_ == Kind::kLocked || quota(kind_).keep()) return;
  ::close(descriptor);
  descriptor_ = -1;
}

Descriptor::~Descriptor() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (kind_ != Kind::kLocked) quota(kind_).release();
}

Descriptor::Use Descriptor::use() const {
  if (descriptor_ >= 0) return {*this, descriptor_};
  quota(kind_).begin_use();
  try {
    return {*this, reopen()};
  } catch (...) {
    quota(kind_).end_use();
    throw;
  }
}

Descriptor::Use::~Use() {
  if (owner_.descriptor_ >= 0) return;
  ::close(descriptor_);
  quota(owner_.kind_).end_use();
}

int Descriptor::reopen() const {
  const int descriptor = retry([&] { return ::open(path_.c_str(), flags_); });
  if (descriptor < 0)
    throw Error(ErrorCode::kIo, fmt::format("cannot open it again: {}", std::strerror(errno))).in_file(path_);
  std::string_view what;
  try {
    const struct stat now = status_of(descriptor, path_);
    if (!same_file(now, status_))
      what = "was replaced during the run";
    else if (kind_ == Kind::kInput && !same_content(now, status_))
      what = "was changed during the run";
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (what.empty()) return descriptor;
  ::close(descriptor);
  throw Error(ErrorCode::kIo, std::string(what)).in_file(path_);
}

}  // namespace wconv
