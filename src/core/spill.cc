#include "core/spill.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "wconv/error.h"

namespace wconv {
namespace {

std::string temporary_folder() {
  const char* set = std::getenv("TMPDIR");
  return set && *set ? set : "/tmp";
}

int open_unlinked() {
  const std::string folder = temporary_folder();
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) {  // a file system without O_TMPFILE
    std::string name = folder + "/wconv-XXXXXX";
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(name.c_str());
  }
  if (descriptor < 0) {
    fail(ErrorCode::kIo, "cannot make a temporary file in {}, which unpacking needs: {}; TMPDIR names another folder",
         printable(folder), std::strerror(errno));
  }
  return descriptor;
}

}  // namespace

Spill::~Spill() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::uint64_t Spill::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) descriptor_ = open_unlinked();
  const std::uint64_t offset = size_;
  size_ += bytes;
  return offset;
}

void Spill::require_room(std::uint64_t bytes) {
  reserve(0);
  struct statvfs disk {};
  if (::fstatvfs(descriptor_, &disk) != 0) return;
  const std::uint64_t room = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (room >= bytes) return;
  fail(ErrorCode::kIo, "unpacking needs {} bytes of disk in {}, {} are free; TMPDIR names another folder", bytes,
       printable(temporary_folder()), room);
}

void Spill::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  reserve(0);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail(ErrorCode::kIo, "cannot write the temporary file that unpacking needs: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void Spill::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      fail(ErrorCode::kIo, "cannot read the temporary file back: {}",
           got < 0 ? std::strerror(errno) : "it is too short");
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace wconv
