#include "core/zstd_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "wconv/error.h"

namespace wconv {
namespace {

constexpr std::uint64_t kMaxCachedFrame = 8 * 1024 * 1024;

}  // namespace

std::shared_ptr<const File> unpacked(std::shared_ptr<const File> file) {
  std::array<std::byte, 4> head{};
  if (file->is_unpacked() || file->size() < head.size()) return file;
  file->read(0, head);
  if (!starts_zstd(head)) return file;
  try {
    ZstdIndex index = index_zstd(*file);
    const bool small = index.complete && index.max_frame <= kMaxCachedFrame;
    auto content = small ? zstd_frame_content(file, std::move(index)) : zstd_stream_content(file, index);
    return File::from_content(std::move(file), std::move(content));
  } catch (Error& error) {
    throw error.in_file(file->path());
  }
}

std::string plain_or_zst(const std::string& path) {
  const std::string packed = path + ".zst";
  return ::access(path.c_str(), F_OK) != 0 && ::access(packed.c_str(), F_OK) == 0 ? packed : path;
}

std::string_view without_zst(std::string_view path) {
  if (path.ends_with(".zst")) path.remove_suffix(4);
  return path;
}

std::shared_ptr<const File> open_unpacked(const std::string& path) { return unpacked(File::open(plain_or_zst(path))); }

}  // namespace wconv
