// Zstd files of small frames: each is unpacked where it is needed.
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/frame_cache.h"
#include "core/zstd_file.h"
#include "wconv/error.h"

namespace wconv {
namespace {

// One for each thread: its memory is that of one stored frame.
class Decoder {
 public:
  Decoder() : context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
  }
  ~Decoder() { ZSTD_freeDCtx(context_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::span<std::byte> input(std::uint64_t size) {
    if (capacity_ < size) {
      capacity_ = 0;
      stored_ = std::make_unique_for_overwrite<std::byte[]>(size);
      capacity_ = size;
    }
    return {stored_.get(), size};
  }
  const ZSTD_DCtx* context() const { return context_; }
  std::size_t unpack(std::span<const std::byte> in, std::span<std::byte> out) {
    return ZSTD_decompressDCtx(context_, out.data(), out.size(), in.data(), in.size());
  }

 private:
  ZSTD_DCtx* context_;
  std::unique_ptr<std::byte[]> stored_;
  std::uint64_t capacity_ = 0;
};

class FrameContent final : public FileContent {
 public:
  FrameContent(std::shared_ptr<const File> stored, ZstdIndex index)
      : stored_(std::move(stored)), index_(std::move(index)) {
    static std::atomic<std::uint64_t> next_id{0};
    source_.id = next_id++;
    source_.frames = index_.frames.size();
    source_.frame_bytes = [this](std::size_t frame) { return index_.frames[frame].size; };
    source_.unpack = [this](std::size_t frame, std::span<std::byte> out) { unpack(index_.frames[frame], out); };
  }
  ~FrameContent() override { FrameCache::shared().drop(source_.id); }

  std::uint64_t size() const override { return index_.size; }
  ReadMemory memory() const override {
    return {FrameCache::shared().capacity(), index_.max_frame + ZSTD_sizeof_DCtx(Decoder().context())};
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    try {
      read_frames(offset, out);
    } catch (Error& error) {
      throw error.in_file(stored_->path());
    }
  }

 private:
  void read_frames(std::uint64_t offset, std::span<std::byte> out) const {
    FrameCache& cache = FrameCache::shared();
    const auto& frames = index_.frames;
    auto frame = std::upper_bound(frames.begin(), frames.end(), offset,
                                  [](std::uint64_t at, const ZstdFrame& f) { return at < f.begin + f.size; });
    for (; !out.empty(); ++frame) {
      const std::uint64_t skip = offset - frame->begin, size = std::min<std::uint64_t>(out.size(), frame->size - skip);
      const auto number = static_cast<std::size_t>(frame - frames.begin());
      if (size == frame->size && !cache.contains(source_, number)) {
        unpack(*frame, out.first(size));  // nobody else is likely to want it
      } else {
        cache.read(source_, number, skip, out.first(size));
      }
      out = out.subspan(size);
      offset += size;
    }
  }

  [[noreturn]] static void refuse(const ZstdFrame& frame, std::string what) {
    throw Error(ErrorCode::kCorrupt, std::move(what)).at(frame.stored_begin);
  }

  void unpack(const ZstdFrame& frame, std::span<std::byte> out) const {
    thread_local Decoder decoder;
    const auto in = decoder.input(frame.stored_size);
    stored_->read(frame.stored_begin, in);
    const ZstdFrameHeader header =
        read_zstd_frame_header(in.first(std::min<std::size_t>(in.size(), 18)), frame.stored_begin);
    const std::size_t stored = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (header.skippable || ZSTD_isError(stored) || stored != in.size())
      refuse(frame, fmt::format("there is no zstd frame of {} bytes here: the file or its seek table is damaged",
                                frame.stored_size));
    const std::size_t made = decoder.unpack(in, out);
    if (ZSTD_isError(made) && ZSTD_getErrorCode(made) != ZSTD_error_dstSize_tooSmall)
      refuse(frame, fmt::format("the zstd frame is damaged: {}", ZSTD_getErrorName(made)));
    if (made != frame.size)
      refuse(frame,
             fmt::format("the zstd frame unpacks to another size than the {} bytes that are stated", frame.size));
    if (frame.checksum && static_cast<std::uint32_t>(XXH64(out.data(), out.size(), 0)) != *frame.checksum)
      refuse(frame, "the zstd frame unpacks to bytes that do not have the seek table's checksum");
  }

  const std::shared_ptr<const File> stored_;
  const ZstdIndex index_;
  FrameCache::Source source_;
};

}  // namespace

std::unique_ptr<const FileContent> zstd_frame_content(std::shared_ptr<const File> stored, ZstdIndex index) {
  return std::make_unique<FrameContent>(std::move(stored), std::move(index));
}

}  // namespace wconv
