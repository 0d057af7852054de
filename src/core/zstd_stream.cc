// Zstd files that can only be unpacked from the front: as far as they are read, into a temporary file.
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "core/spill.h"
#include "core/zstd_file.h"
#include "wconv/error.h"

namespace wconv {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kPrefix = 16 * kMiB;        // up to here starting over costs less than keeping a window
constexpr std::uint64_t kOpenWindows = 32 * kMiB;   // of all decoders that wait to go on
constexpr std::uint64_t kReserve = 256 * kMiB;      // of the disk, which a file of unknown size leaves free
constexpr std::size_t kOut = 1 * kMiB;

// All of the file, frame after frame. Not thread-safe.
class Decoder {
 public:
  explicit Decoder(const File& stored)
      : stored_(stored), context_(ZSTD_createDCtx()), in_(ZSTD_DStreamInSize()), out_(kOut) {
    if (!context_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);  // kZstdMaxWindow
  }
  ~Decoder() { ZSTD_freeDCtx(context_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The next bytes of the content; empty after the last. The view lives until the next call.
  std::span<const std::byte> next() {
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    while (out.pos < out.size && !ended()) {
      if (input_.pos == input_.size) refill();
      const std::size_t before = input_.pos + out.pos;
      const std::size_t hint = ZSTD_decompressStream(context_, &out, &input_);
      if (ZSTD_isError(hint)) refuse(fmt::format("the zstd data is damaged: {}", ZSTD_getErrorName(hint)));
      inside_ = hint != 0;
      if (inside_ && input_.pos + out.pos == before) refuse("the zstd file is cut off; an unfinished download?");
    }
    return std::span<const std::byte>(out_).first(out.pos);
  }
  bool ended() const { return !inside_ && taken_ == stored_.size() && input_.pos == input_.size; }
  std::uint64_t position() const { return taken_ - input_.size + input_.pos; }  // in the stored file

 private:
  [[noreturn]] void refuse(std::string what) const {
    throw Error(ErrorCode::kCorrupt, std::move(what)).in_file(stored_.path()).at(position());
  }
  void refill() {
    const auto part = std::span(in_).first(std::min<std::uint64_t>(in_.size(), stored_.size() - taken_));
    stored_.read(taken_, part);
    taken_ += part.size();
    input_ = {in_.data(), part.size(), 0};
  }

  const File& stored_;
  ZSTD_DCtx* context_;
  std::vector<std::byte> in_, out_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::uint64_t taken_ = 0;
  bool inside_ = false;  // a frame
};

class StreamContent final : public FileContent {
 public:
  StreamContent(std::shared_ptr<const File> stored, const ZstdIndex& index)
      : stored_(std::move(stored)), size_(index.complete ? index.size : kUnknown), window_(index.max_window) {
    spill_.reserve(0);
    if (size_ != kUnknown) return;
    unpack_to(kUnknown);
    size_ = made_;
  }
  ~StreamContent() override { close_decoder(); }

  std::uint64_t size() const override { return size_; }
  std::uint64_t memory_bytes() const override { return std::max(kOpenWindows, window_) + window_ + 2 * kOut; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::uint64_t end = offset + out.size();
    if (made_.load(std::memory_order_acquire) < end) unpack_to(end);
    spill_.read(offset, out);
  }

 private:
  void unpack_to(std::uint64_t end) const {
    const std::lock_guard lock(mutex_);
    const std::uint64_t made = made_.load(std::memory_order_relaxed);
    if (made >= end) return;
    if (error_) std::rethrow_exception(error_);
    // Doubled in the prefix, so that starting over adds up to little.
    const std::uint64_t goal = made >= kPrefix ? end : std::max(end, std::clamp(2 * made, kMiB, kPrefix));
    if (size_ != kUnknown && goal > kPrefix && made <= kPrefix) spill_.require_room(size_ - made);
    try {
      open_decoder();
      run(std::min(goal, size_));
      const bool whole = decoder_->ended();
      if (!whole && goal > kPrefix && !keep_decoder()) {
        // One at a time, so that memory is bounded however many files there are.
        static std::mutex one;
        const std::lock_guard turn(one);
        run(size_);
      }
      if (decoder_->ended() || made_ < kPrefix || !kept_) close_decoder();
    } catch (...) {
      close_decoder();
      made_ = 0;  // nothing of a damaged file is good
      error_ = std::current_exception();
      throw;
    }
  }

  void open_decoder() const {
    if (decoder_) return;
    decoder_ = std::make_unique<Decoder>(*stored_);
    position_ = 0;
  }

  void close_decoder() const {
    decoder_.reset();
    if (std::exchange(kept_, false)) open_windows() -= window_;
  }

  // May this decoder stay open until its next call?
  bool keep_decoder() const {
    if (kept_) return true;
    const std::uint64_t others = open_windows().fetch_add(window_);
    kept_ = others == 0 || others + window_ <= kOpenWindows;
    if (!kept_) open_windows() -= window_;
    return kept_;
  }
  static std::atomic<std::uint64_t>& open_windows() {
    static std::atomic<std::uint64_t> bytes{0};
    return bytes;
  }

  // At the end of the content: up to the end of the file, so that every checksum is compared.
  void run(std::uint64_t goal) const {
    while ((position_ < goal || goal >= size_) && !decoder_->ended()) add(decoder_->next());
    if (size_ != kUnknown && position_ != size_ && decoder_->ended())
      throw Error(ErrorCode::kCorrupt, fmt::format("the zstd frames unpack to {} bytes, they state {}", position_, size_))
          .in_file(stored_->path())
          .at(decoder_->position());
  }

  void add(std::span<const std::byte> bytes) const {
    const std::uint64_t made = made_.load(std::memory_order_relaxed), end = position_ + bytes.size();
    if (size_ != kUnknown && end > size_)
      throw Error(ErrorCode::kCorrupt, fmt::format("the zstd frames unpack to more than the {} bytes they state", size_))
          .in_file(stored_->path())
          .at(decoder_->position());
    if (end > made) {
      if (size_ == kUnknown && end / kReserve != made / kReserve) spill_.require_room(2 * kReserve);
      const std::uint64_t known = made - std::min(made, position_);  // from an earlier start
      spill_.write(position_ + known, bytes.subspan(known));
      made_.store(end, std::memory_order_release);
    }
    position_ = end;
  }

  const std::shared_ptr<const File> stored_;
  std::uint64_t size_;
  const std::uint64_t window_;
  mutable Spill spill_;
  mutable std::atomic<std::uint64_t> made_{0};  // bytes of the content that the temporary file holds
  mutable std::mutex mutex_;                    // guards what follows
  mutable std::unique_ptr<Decoder> decoder_;
  mutable std::uint64_t position_ = 0;  // of the decoder in the content
  mutable bool kept_ = false;           // its window is counted
  mutable std::exception_ptr error_;
};

}  // namespace

std::unique_ptr<const FileContent> zstd_stream_content(std::shared_ptr<const File> stored, const ZstdIndex& index) {
  return std::make_unique<StreamContent>(std::move(stored), index);
}

}  // namespace wconv
