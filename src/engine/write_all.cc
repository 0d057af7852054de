#include "engine/write_all.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wconv/error.h"

namespace wconv::engine {

void write_all(const Descriptor& descriptor, std::uint64_t offset, std::span<const std::byte> bytes,
               const std::string& name) {
  const Descriptor::Use file = descriptor.use();
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorCode::kIo, fmt::format("cannot write: {}", std::strerror(errno))).in_file(name).at(offset);
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

}  // namespace wconv::engine
