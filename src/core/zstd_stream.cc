// Zstd files that can only be unpacked from the front: as far as they are read, into a temporary file.
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <deque>
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
constexpr std::uint64_t kChunk = 1 * kMiB;
constexpr std::uint64_t kPrefix = 16 * kMiB;       // up to here starting over costs less than keeping a window
constexpr std::uint64_t kRecent = 16 * kMiB;       // in memory, for threads that read on together
constexpr std::uint64_t kOpenStreams = 40 * kMiB;  // windows and recent bytes of all files that are read on

// All of the file, frame after frame. Not thread-safe.
class Decoder {
 public:
  explicit Decoder(const File& stored) : stored_(stored), context_(ZSTD_createDCtx()), in_(ZSTD_DStreamInSize()) {
    if (!context_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27);  // kZstdMaxWindow
  }
  ~Decoder() { ZSTD_freeDCtx(context_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Fills `bytes` with what comes next, a part of it only at the end. Returns how much.
  std::size_t next(std::span<std::byte> bytes) {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    while (out.pos < out.size && !ended()) {
      if (input_.pos == input_.size) refill();
      const std::size_t before = input_.pos + out.pos;
      const std::size_t hint = ZSTD_decompressStream(context_, &out, &input_);
      if (ZSTD_isError(hint)) refuse(fmt::format("the zstd data is damaged: {}", ZSTD_getErrorName(hint)));
      inside_ = hint != 0;
      if (inside_ && input_.pos + out.pos == before) refuse("the zstd file is cut off; an unfinished download?");
    }
    return out.pos;
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
  std::vector<std::byte> in_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::uint64_t taken_ = 0;
  bool inside_ = false;  // a frame
};

struct Chunk {
  std::uint64_t begin = 0, size = 0;  // of the content
  std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kChunk);
};
using Chunks = std::vector<std::shared_ptr<Chunk>>;

// The temporary file holds [0, front_) and [tail_, size). What is read on behind the first kPrefix bytes stays in
// memory for a while and is not written, until a read goes back behind that: then the file is unpacked once more, all
// of it into the temporary file.
class StreamContent final : public FileContent {
 public:
  StreamContent(std::shared_ptr<const File> stored, const ZstdIndex& index)
      : stored_(std::move(stored)), window_(index.max_window), size_(index.complete ? index.size : measured()) {}
  ~StreamContent() override { close_decoder(); }

  std::uint64_t size() const override { return size_; }
  // Chunks that threads have in hand have left the recent ones.
  ReadMemory memory() const override {
    const std::uint64_t open = std::max(kOpenStreams, window_ + kRecent);
    return {open + window_ + kMiB, kChunk};
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (out.empty()) return;
    const std::uint64_t end = offset + out.size();
    Chunks chunks;
    if (end > front_.load(std::memory_order_acquire) && offset < tail_.load(std::memory_order_acquire))
      chunks = reach(offset, end);
    // What is in no chunk is in the temporary file.
    std::uint64_t done = offset;
    const auto from_file = [&](std::uint64_t to) {
      if (to > done) spill_.read(done, out.subspan(done - offset, to - done));
    };
    for (const auto& chunk : chunks) {
      const std::uint64_t from = std::max(chunk->begin, done), to = std::min(chunk->begin + chunk->size, end);
      if (from >= to) continue;
      from_file(from);
      std::copy_n(chunk->bytes.get() + (from - chunk->begin), to - from,
                  out.begin() + static_cast<std::ptrdiff_t>(from - offset));
      done = to;
    }
    from_file(end);
  }

 private:
  enum class Mode { kFront, kOn, kSpill };  // in the first bytes; reading on; all into the temporary file

  // Of the content of frames that do not state it: there is no other way than to unpack them.
  std::uint64_t measured() const {
    Decoder decoder(*stored_);
    const Chunk chunk;
    std::uint64_t size = 0;
    while (!decoder.ended()) size += decoder.next({chunk.bytes.get(), kChunk});
    return size;
  }

  // Makes sure that [begin, end) is in the temporary file or in the chunks that it returns, in ascending order.
  Chunks reach(std::uint64_t begin, std::uint64_t end) const {
    Chunks chunks;
    if (find_recent(begin, end, chunks)) return chunks;
    const std::lock_guard lock(mutex_);
    begin = std::max(begin, front_.load());
    if (begin >= std::min(end, tail_.load())) return {};
    if (error_) std::rethrow_exception(error_);
    try {
      choose_mode(begin, end);
      if (!decoder_) {
        decoder_ = std::make_unique<Decoder>(*stored_);
        position_ = 0;
      }
      if (mode_ == Mode::kOn) return read_on(begin, end);
      spill_to(end);
      return {};
    } catch (...) {
      fail_with(std::current_exception());
      throw;
    }
  }

  void fail_with(std::exception_ptr error) const {
    close_decoder();
    front_ = 0;  // nothing of a damaged file is good
    tail_ = kUnknown;
    error_ = std::move(error);
  }

  // True when the recent chunks hold all of it. The thread that comes first to the last of them unpacks the one behind
  // it, so that others can go on meanwhile.
  bool find_recent(std::uint64_t begin, std::uint64_t end, Chunks& chunks) const {
    bool last = false;
    {
      const std::lock_guard lock(recent_mutex_);
      if (recent_.empty() || begin < recent_.front()->begin || end > recent_end()) return false;
      chunks = recent_within(begin, end);
      last = end > recent_.back()->begin;
    }
    if (!last) return true;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || mode_ != Mode::kOn || !decoder_ || decoder_->ended()) return true;
    if (recent_.empty() || end <= recent_.back()->begin) return true;  // another thread has done it
    try {
      read_on(position_, position_ + 1);
    } catch (...) {  // whoever reads that finds out
      fail_with(std::current_exception());
    }
    return true;
  }

  std::uint64_t recent_end() const { return recent_.back()->begin + recent_.back()->size; }
  Chunks recent_within(std::uint64_t begin, std::uint64_t end) const {
    Chunks chunks;
    for (const auto& chunk : recent_) {
      if (chunk->begin + chunk->size > begin && chunk->begin < end) chunks.push_back(chunk);
    }
    return chunks;
  }

  void choose_mode(std::uint64_t begin, std::uint64_t end) const {
    if (mode_ == Mode::kFront && end > kPrefix) mode_ = may_stay_open() ? Mode::kOn : Mode::kSpill;
    const std::uint64_t kept = recent_.empty() ? position_ : recent_.front()->begin;
    if (mode_ == Mode::kOn && begin < kept) {
      mode_ = Mode::kSpill;
      decoder_.reset();
      clear_recent();
    }
    if (mode_ == Mode::kSpill && !decoder_) spill_.require_room(size_ - front_);
  }

  // May this file keep a decoder and its recent bytes until they are needed again?
  bool may_stay_open() const {
    if (counted_) return true;
    const std::uint64_t mine = window_ + kRecent, others = open_streams().fetch_add(mine);
    counted_ = others == 0 || others + mine <= kOpenStreams;
    if (!counted_) open_streams() -= mine;
    return counted_;
  }
  static std::atomic<std::uint64_t>& open_streams() {
    static std::atomic<std::uint64_t> bytes{0};
    return bytes;
  }
  void clear_recent() const {
    const std::lock_guard lock(recent_mutex_);
    recent_.clear();
  }
  void close_decoder() const {
    decoder_.reset();
    clear_recent();
    if (std::exchange(counted_, false)) open_streams() -= window_ + kRecent;
  }

  Chunks read_on(std::uint64_t begin, std::uint64_t end) const {
    Chunks chunks = recent_within(begin, end);
    while (wants_more(end)) {
      auto chunk = oldest_chunk();
      if (!chunk) chunk = std::make_shared<Chunk>();
      unpack(*chunk);
      if (chunk->begin + chunk->size > begin && chunk->begin < end) chunks.push_back(chunk);
      const std::lock_guard lock(recent_mutex_);
      recent_.push_back(std::move(chunk));
    }
    if (decoder_->ended()) {  // the last bytes stay at hand for threads that are behind
      for (const auto& chunk : recent_) spill_.write(chunk->begin, {chunk->bytes.get(), chunk->size});
      tail_.store(recent_.front()->begin, std::memory_order_release);
      close_decoder();
    }
    return chunks;
  }

  // Makes room among the recent chunks; null where the oldest is still in use, or there is room.
  std::shared_ptr<Chunk> oldest_chunk() const {
    const std::lock_guard lock(recent_mutex_);
    if (recent_.size() < kRecent / kChunk) return nullptr;
    std::shared_ptr<Chunk> oldest = std::move(recent_.front());
    recent_.pop_front();
    return oldest.use_count() == 1 ? oldest : nullptr;
  }

  void spill_to(std::uint64_t end) const {
    // Doubled in the front, so that starting over adds up to little.
    const std::uint64_t least = mode_ == Mode::kFront ? std::clamp(2 * front_.load(), kMiB, kPrefix) : 0;
    spill(std::max(end, least));
    if (mode_ == Mode::kSpill && !counted_ && !decoder_->ended()) {
      static std::mutex one;  // at a time, so that memory is bounded however many files there are
      const std::lock_guard turn(one);
      spill(size_);
    }
    if (decoder_->ended() || !counted_) close_decoder();
  }

  void spill(std::uint64_t end) const {
    Chunk chunk;
    while (wants_more(end)) {
      const std::uint64_t front = front_.load();
      unpack(chunk);
      if (position_ <= front) continue;  // known from an earlier start
      const std::uint64_t known = front - std::min(front, chunk.begin);
      spill_.write(chunk.begin + known, {chunk.bytes.get() + known, chunk.size - known});
      front_.store(position_, std::memory_order_release);
    }
  }

  // At the end of the content it goes on to the end of the file, so that every checksum is compared.
  bool wants_more(std::uint64_t end) const { return (position_ < end || end >= size_) && !decoder_->ended(); }

  void unpack(Chunk& chunk) const {
    chunk.begin = position_;
    chunk.size = decoder_->next({chunk.bytes.get(), kChunk});
    position_ += chunk.size;
    if (decoder_->ended() ? position_ == size_ : position_ <= size_) return;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("the zstd frames unpack to {} bytes or more, they state {}", position_, size_))
        .in_file(stored_->path())
        .at(decoder_->position());
  }

  const std::shared_ptr<const File> stored_;
  const std::uint64_t window_, size_;
  mutable Spill spill_;
  mutable std::atomic<std::uint64_t> front_{0}, tail_{kUnknown};
  mutable std::mutex mutex_;  // guards what follows
  mutable Mode mode_ = Mode::kFront;
  mutable std::unique_ptr<Decoder> decoder_;
  mutable std::uint64_t position_ = 0;  // of the decoder in the content
  mutable bool counted_ = false;        // among the open streams
  mutable std::exception_ptr error_;
  mutable std::mutex recent_mutex_;  // after mutex_; needed to change what follows, or to read it alone
  mutable std::deque<std::shared_ptr<Chunk>> recent_;  // up to position_, when reading on
};

}  // namespace

std::unique_ptr<const FileContent> zstd_stream_content(std::shared_ptr<const File> stored, const ZstdIndex& index) {
  return std::make_unique<StreamContent>(std::move(stored), index);
}

}  // namespace wconv
