#include "formats/pytorch/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "core/hash.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::size_t kChunk = 256 * 1024;

// zlib's stream for raw deflate data.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) fail(ErrorCode::kIo, "out of memory for zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void feed(std::span<std::byte> in) {
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
  }
  bool hungry() const { return stream_.avail_in == 0; }
  // Fills a part of `out`; `ended` after the last byte. False for data that is no deflate stream.
  bool step(std::span<std::byte> out, std::size_t& made, bool& ended) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    made = out.size() - stream_.avail_out;
    ended = status == Z_STREAM_END;
    return status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
  }

 private:
  z_stream stream_{};
};

class InflatedTensor final : public TensorData {
 public:
  InflatedTensor(std::shared_ptr<const File> file, ZipRecord record, std::shared_ptr<Spill> spill)
      : file_(std::move(file)), record_(std::move(record)), spill_(std::move(spill)) {}
  std::uint64_t size_bytes() const override { return record_.size; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::call_once(once_, [this] { unpack(); });
    spill_->read(begin_ + offset, out);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::kCorrupt, fmt::format("record '{}': {}", printable(record_.name), what))
        .in_file(file_->path())
        .at(record_.data_offset);
  }

  void unpack() const {
    begin_ = spill_->reserve(record_.size);
    Inflater inflater;
    std::vector<std::byte> in(kChunk), out(kChunk);
    std::uint64_t taken = 0, written = 0;
    std::uint32_t crc = 0;
    for (bool ended = false; !ended;) {
      if (inflater.hungry() && taken < record_.compressed_size) {
        const auto part = std::span(in).first(std::min<std::uint64_t>(kChunk, record_.compressed_size - taken));
        file_->read(record_.data_offset + taken, part);
        taken += part.size();
        inflater.feed(part);
      }
      std::size_t made = 0;
      if (!inflater.step(out, made, ended)) refuse("its compressed data is damaged");
      if (made > record_.size - written)
        refuse(fmt::format("it unpacks to more than the {} bytes it claims", record_.size));
      if (made == 0 && !ended && inflater.hungry() && taken == record_.compressed_size)
        refuse("its compressed data ends early");
      crc = crc32(crc, std::span(out).first(made));
      spill_->write(begin_ + written, std::span(out).first(made));
      written += made;
    }
    if (written != record_.size || !inflater.hungry() || taken != record_.compressed_size) {
      refuse(fmt::format("it unpacks to {} bytes, the directory says {}", written, record_.size));
    }
    if (crc != record_.crc32)
      refuse(fmt::format("its CRC-32 is {:08x}, the directory says {:08x}: the data is damaged", crc, record_.crc32));
  }

  const std::shared_ptr<const File> file_;
  const ZipRecord record_;
  const std::shared_ptr<Spill> spill_;
  mutable std::once_flag once_;
  mutable std::uint64_t begin_ = 0;
};

}  // namespace

std::shared_ptr<const TensorData> inflated_tensor(std::shared_ptr<const File> file, const ZipRecord& record,
                                                  std::shared_ptr<Spill> spill) {
  return std::make_shared<InflatedTensor>(std::move(file), record, std::move(spill));
}

}  // namespace wconv::pytorch
