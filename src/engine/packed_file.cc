#include "engine/packed_file.h"

#include <fcntl.h>

#include "engine/write_all.h"

namespace wconv::engine {

PackedFile::PackedFile(const OutputFile& plan, const Descriptor& descriptor, bool hash)
    : plan_(plan),
      descriptor_(descriptor),
      hash_(hash),
      frames_((plan.size + kZstdFrameBytes - 1) / kZstdFrameBytes, 0) {}

void PackedFile::pack(std::uint64_t begin, std::uint64_t size, std::span<std::byte> tile) {
  std::unique_ptr<ZstdCompressor> compressor;
  {
    const std::lock_guard lock(mutex_);
    if (!compressors_.empty()) {
      compressor = std::move(compressors_.back());
      compressors_.pop_back();
    }
  }
  if (!compressor) compressor = std::make_unique<ZstdCompressor>(plan_.zstd_level);
  const std::size_t stored = compressor->compress(tile.first(size), tile.subspan(size));
  frames_[begin / kZstdFrameBytes] = static_cast<std::uint32_t>(stored);
  const std::lock_guard lock(mutex_);
  compressors_.push_back(std::move(compressor));
}

void PackedFile::append(std::uint64_t begin, std::uint64_t size, std::span<std::byte> tile) {
  std::uint32_t& stored = frames_[begin / kZstdFrameBytes];
  if (stored == 0) pack(begin, size, tile);
  write(tile.subspan(size, stored));
}

void PackedFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, size_, bytes, plan_.name);
  ::sync_file_range(descriptor_.use().get(), static_cast<off_t>(size_), static_cast<off_t>(bytes.size()),
                    SYNC_FILE_RANGE_WRITE);
  size_ += bytes.size();
  if (hash_) sha_.update(bytes);
}

FileRecord PackedFile::finish() {
  write(zstd_seek_table(frames_, plan_.size));
  return {plan_.name, size_, hash_ ? sha_.hex() : std::string()};
}

}  // namespace wconv::engine
