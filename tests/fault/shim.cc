// LD_PRELOAD library that makes the Nth call that touches a folder fail, write short, or kill the process.
//
// WCONV_FAULT_FOLDER=PATH  counts calls on PATH, paths below it and descriptors opened there
// WCONV_FAULT_LOG=PATH     appends a line "NAME" for each of them
// WCONV_FAULT=N:KIND       what happens to call N (from 0); "*:KIND": to each one that KIND suits
// KIND: a number is an errno instead of the call; "short": half of the bytes; "kill": SIGKILL before the call;
// "killed-after": after it. "*:4" fails every other call with EINTR, "*:short" moves at most 4096 bytes per call.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

enum Trait : unsigned { kNone = 0, kMoves = 1, kInterruptible = 2, kStillDone = 4 };

struct Plan {
  std::string folder;
  int log = -1;
  bool each = false, shortened = false, kill_before = false, kill_after = false;
  long index = -1;
  int error = 0;
};

std::atomic<long> g_calls{0};
std::atomic<bool> g_touching[1024];  // by descriptor

Plan read_plan() {
  Plan plan;
  const char* folder = std::getenv("WCONV_FAULT_FOLDER");
  const char* log = std::getenv("WCONV_FAULT_LOG");
  const char* fault = std::getenv("WCONV_FAULT");
  if (folder) plan.folder = folder;
  if (log) plan.log = static_cast<int>(::syscall(SYS_open, log, O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fault) return plan;
  const std::string_view text(fault), kind = text.substr(text.find(':') + 1);
  plan.each = text.starts_with('*');
  plan.index = plan.each ? -1 : std::atol(fault);
  plan.shortened = kind == "short";
  plan.kill_before = kind == "kill";
  plan.kill_after = kind == "killed-after";
  plan.error = std::atoi(kind.data());
  return plan;
}

const Plan& plan() {
  static const Plan plan = read_plan();
  return plan;
}

bool touches(int descriptor) { return descriptor >= 0 && descriptor < 1024 && g_touching[descriptor]; }

bool touches(const char* path) {
  const std::string_view folder = plan().folder, text = path ? path : "";
  return !folder.empty() && text.starts_with(folder) && (text.size() == folder.size() || text[folder.size()] == '/');
}

bool touches(int folder, const char* path) { return touches(path) || (path && path[0] != '/' && touches(folder)); }

void die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// `call(limit)` makes the call with at most `limit` bytes.
template <typename Call>
auto intercept(const char* name, bool touching, unsigned traits, std::size_t bytes, Call call)
    -> decltype(call(bytes)) {
  if (!touching) return call(bytes);
  const long index = g_calls.fetch_add(1);
  if (plan().log >= 0) {
    const std::string line = std::string(name) + "\n";
    ::syscall(SYS_write, plan().log, line.data(), line.size());
  }
  const bool here = plan().index == index;
  if (here && plan().kill_before) die();
  const bool storm = plan().each && plan().error != 0 && (traits & kInterruptible) && index % 2 == 0;
  if ((here || storm) && plan().error != 0) {
    if (traits & kStillDone) call(bytes);
    errno = plan().error;
    return static_cast<decltype(call(bytes))>(-1);
  }
  if (plan().shortened && (traits & kMoves) && here) bytes = std::max<std::size_t>(1, bytes / 2);
  if (plan().shortened && (traits & kMoves) && plan().each) bytes = std::min<std::size_t>(bytes, 4096);
  const auto result = call(bytes);
  if (here && plan().kill_after) die();
  return result;
}

int remember(int descriptor, bool touching) {
  if (descriptor >= 0 && descriptor < 1024) g_touching[descriptor] = touching;
  return descriptor;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const bool touching = touches(folder, path);
  return remember(
      intercept("open", touching, kInterruptible, 0,
                [&](std::size_t) { return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode)); }),
      touching);
}

mode_t mode_of(int flags, std::va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

#define WCONV_OPEN(NAME)                           \
  int NAME(const char* path, int flags, ...) {     \
    std::va_list arguments;                        \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return open_at(AT_FDCWD, path, flags, mode);   \
  }
#define WCONV_OPENAT(NAME)                                 \
  int NAME(int folder, const char* path, int flags, ...) { \
    std::va_list arguments;                                \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    return open_at(folder, path, flags, mode);             \
  }
WCONV_OPEN(open)
WCONV_OPEN(open64)
WCONV_OPENAT(openat)
WCONV_OPENAT(openat64)

#define WCONV_WRITE(NAME)                                                                                          \
  ssize_t NAME(int descriptor, const void* data, std::size_t size, off_t offset) {                                 \
    return intercept("pwrite", touches(descriptor), kMoves | kInterruptible, size,                                 \
                     [&](std::size_t limit) { return ::syscall(SYS_pwrite64, descriptor, data, limit, offset); }); \
  }
WCONV_WRITE(pwrite)
WCONV_WRITE(pwrite64)

ssize_t write(int descriptor, const void* data, std::size_t size) {
  return intercept("write", touches(descriptor), kMoves | kInterruptible, size,
                   [&](std::size_t limit) { return ::syscall(SYS_write, descriptor, data, limit); });
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, std::size_t size, unsigned flags) {
  return intercept("copy_file_range", touches(to), kMoves | kInterruptible, size, [&](std::size_t limit) {
    return ::syscall(SYS_copy_file_range, from, from_offset, to, to_offset, limit, flags);
  });
}

// Calls that hand over all of their arguments.
#define WCONV_CALL(RESULT, NAME, SHOWN, TRAITS, TOUCHES, PARAMETERS, ARGUMENTS)               \
  RESULT NAME PARAMETERS {                                                                    \
    static const auto call = next<RESULT(*) PARAMETERS>(#NAME);                               \
    return intercept(SHOWN, TOUCHES, TRAITS, 0, [&](std::size_t) { return call ARGUMENTS; }); \
  }
WCONV_CALL(int, close, "close", kStillDone, touches(fd) && (remember(fd, false), true), (int fd), (fd))
WCONV_CALL(int, fsync, "fsync", kInterruptible, touches(fd), (int fd), (fd))
WCONV_CALL(int, fdatasync, "fdatasync", kInterruptible, touches(fd), (int fd), (fd))
WCONV_CALL(int, ftruncate, "ftruncate", kInterruptible, touches(fd), (int fd, off_t size), (fd, size))
WCONV_CALL(int, ftruncate64, "ftruncate", kInterruptible, touches(fd), (int fd, off64_t size), (fd, size))
WCONV_CALL(int, fallocate, "fallocate", kInterruptible, touches(fd), (int fd, int mode, off_t from, off_t size),
           (fd, mode, from, size))
WCONV_CALL(int, fallocate64, "fallocate", kInterruptible, touches(fd), (int fd, int mode, off64_t from, off64_t size),
           (fd, mode, from, size))
WCONV_CALL(int, sync_file_range, "sync_file_range", kNone, touches(fd),
           (int fd, off64_t from, off64_t size, unsigned flags), (fd, from, size, flags))
WCONV_CALL(int, flock, "flock", kInterruptible, touches(fd), (int fd, int operation), (fd, operation))
WCONV_CALL(int, fchmod, "fchmod", kNone, touches(fd), (int fd, mode_t mode), (fd, mode))
WCONV_CALL(int, fstat, "fstat", kNone, touches(fd), (int fd, struct stat* status), (fd, status))
WCONV_CALL(int, fstatvfs, "fstatvfs", kInterruptible, touches(fd), (int fd, struct statvfs* status), (fd, status))
WCONV_CALL(int, stat, "stat", kNone, touches(path), (const char* path, struct stat* status), (path, status))
WCONV_CALL(int, lstat, "lstat", kNone, touches(path), (const char* path, struct stat* status), (path, status))
WCONV_CALL(int, mkdir, "mkdir", kNone, touches(path), (const char* path, mode_t mode), (path, mode))
WCONV_CALL(int, rmdir, "rmdir", kNone, touches(path), (const char* path), (path))
WCONV_CALL(int, unlink, "unlink", kNone, touches(path), (const char* path), (path))
WCONV_CALL(int, unlinkat, "unlink", kNone, touches(folder, path), (int folder, const char* path, int flags),
           (folder, path, flags))
WCONV_CALL(int, rename, "rename", kNone, touches(to), (const char* from, const char* to), (from, to))
WCONV_CALL(int, renameat2, "rename", kNone, touches(to),
           (int from_folder, const char* from, int to_folder, const char* to, unsigned flags),
           (from_folder, from, to_folder, to, flags))

}  // extern "C"
