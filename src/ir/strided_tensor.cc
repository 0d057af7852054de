// Views of a storage: any strides, gathered in runs along the dimension that lies densest in the file.
#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>

#include "wconv/byte_reader.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/tensor.h"

namespace wconv {
namespace {

constexpr std::uint64_t kRunBytes = 256 * 1024;         // of storage read at a time
constexpr std::uint64_t kBlockBytes = 8 * 1024 * 1024;  // of a transposed view gathered at once

struct Box {
  std::vector<std::uint64_t> low, high;  // indexes low[d] ≤ i < high[d]
};

class StridedTensor final : public TensorData {
 public:
  StridedTensor(std::shared_ptr<const TensorData> storage, std::uint32_t element_bytes, std::uint64_t offset,
                std::vector<std::uint64_t> shape, std::vector<std::uint64_t> strides)
      : storage_(std::move(storage)),
        element_bytes_(element_bytes),
        offset_(offset),
        shape_(std::move(shape)),
        strides_(std::move(strides)) {
    inner_.assign(shape_.size(), 1);
    for (std::size_t d = shape_.size(); d-- > 1;) inner_[d - 1] = inner_[d] * shape_[d];
    transposed_ = is_transposed();
  }

  std::uint64_t size_bytes() const override { return (shape_.empty() ? 1 : inner_[0] * shape_[0]) * element_bytes_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    constexpr std::size_t kSmall = 4096;  // a look at some values keeps no block
    if (!transposed_ || out.size() < kSmall) return gather_range(offset, out);
    while (!out.empty()) {
      const std::size_t done = read_from_block(offset, out);
      offset += done;
      out = out.subspan(done);
    }
  }

 private:
  // Bytes of the view that several reads want: a row of a transposed view lies all over its storage, so that rows are
  // gathered many at a time.
  struct Block {
    std::uint64_t begin = 0, served = 0;  // bytes
    std::vector<std::byte> bytes;
  };

  // The dimension that lies densest in the storage is not the last one.
  bool is_transposed() const {
    std::uint64_t last = 0, densest = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (shape_[d] < 2 || strides_[d] == 0) continue;
      last = strides_[d];
      densest = densest == 0 ? last : std::min(densest, last);
    }
    return last != densest;
  }

  // From the block that holds `offset`: how many bytes of `out` it has filled.
  std::size_t read_from_block(std::uint64_t offset, std::span<std::byte> out) const {
    const std::lock_guard guard(mutex_);  // the others wait for the same block, or for the disk
    const std::uint64_t step = kBlockBytes / element_bytes_ * element_bytes_, begin = offset / step * step;
    auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.begin == begin; });
    if (block == blocks_.end()) {
      if (blocks_.size() == 2) blocks_.erase(blocks_.begin());
      Block made;
      made.begin = begin;
      made.bytes.resize(std::min(step, size_bytes() - begin));
      gather_range(begin, made.bytes);
      blocks_.push_back(std::move(made));
      block = blocks_.end() - 1;
    }
    const std::size_t size = std::min<std::uint64_t>(out.size(), begin + block->bytes.size() - offset);
    std::copy_n(block->bytes.begin() + static_cast<std::ptrdiff_t>(offset - begin), size, out.begin());
    block->served += size;
    if (block->served >= block->bytes.size()) blocks_.erase(block);  // each byte is mostly read once
    return size;
  }

  void gather_range(std::uint64_t offset, std::span<std::byte> out) const {
    if (out.empty()) return;
    const std::uint64_t first = offset / element_bytes_;
    Box box{std::vector<std::uint64_t>(shape_.size()), std::vector<std::uint64_t>(shape_.size())};
    gather(0, first, first + out.size() / element_bytes_, 0, box, first, out);
  }

  // Splits the flat range [begin, end), which lies inside the fixed indexes box[0..d), into boxes.
  void gather(std::size_t d, std::uint64_t begin, std::uint64_t end, std::uint64_t base, Box& box, std::uint64_t first,
              std::span<std::byte> out) const {
    if (d == shape_.size()) {
      copy_box(box, first, out);
      return;
    }
    const std::uint64_t row = inner_[d];
    const auto one_row = [&](std::uint64_t i, std::uint64_t row_begin, std::uint64_t row_end) {
      box.low[d] = i;
      box.high[d] = i + 1;
      gather(d + 1, row_begin, row_end, base + i * row, box, first, out);
    };
    std::uint64_t i = (begin - base) / row;
    if (begin != base + i * row) {
      const std::uint64_t row_end = std::min(end, base + (i + 1) * row);
      one_row(i, begin, row_end);
      begin = row_end;
      ++i;
    }
    const std::uint64_t whole = (end - begin) / row;
    if (begin < end && whole > 0) {
      box.low[d] = i;
      box.high[d] = i + whole;
      for (std::size_t inner = d + 1; inner < shape_.size(); ++inner) {
        box.low[inner] = 0;
        box.high[inner] = shape_[inner];
      }
      copy_box(box, first, out);
      begin += whole * row;
      i += whole;
    }
    if (begin < end) one_row(i, begin, end);
  }

  // Copies a box; `first` is the flat index of out[0].
  void copy_box(const Box& box, std::uint64_t first, std::span<std::byte> out) const {
    std::size_t run = shape_.size();  // dimension with the smallest stride and more than one index
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      if (box.high[d] - box.low[d] > 1 && (run == shape_.size() || strides_[d] <= strides_[run])) run = d;
    }
    std::vector<std::uint64_t> index = box.low;
    std::vector<std::byte> buffer;
    while (true) {
      copy_run(box, index, run, first, out, buffer);
      std::size_t d = shape_.size();
      while (d-- > 0) {
        if (d == run) continue;
        if (++index[d] < box.high[d]) break;
        index[d] = box.low[d];
      }
      if (d == std::numeric_limits<std::size_t>::max()) return;
    }
  }

  void copy_run(const Box& box, const std::vector<std::uint64_t>& index, std::size_t run, std::uint64_t first,
                std::span<std::byte> out, std::vector<std::byte>& buffer) const {
    std::uint64_t source = offset_, target = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      source += index[d] * strides_[d];
      target += index[d] * inner_[d];
    }
    const std::uint64_t count = run == shape_.size() ? 1 : box.high[run] - box.low[run];
    const std::uint64_t stride = run == shape_.size() ? 1 : strides_[run];
    const std::uint64_t target_step = (run == shape_.size() ? 1 : inner_[run]) * element_bytes_;
    std::byte* to = out.data() + (target - first) * element_bytes_;
    if (stride == 1 && target_step == element_bytes_) {
      storage_->read(source * element_bytes_, {to, count * element_bytes_});
      return;
    }
    const std::uint64_t step =
        std::max<std::uint64_t>(1, kRunBytes / (std::max<std::uint64_t>(stride, 1) * element_bytes_));
    for (std::uint64_t done = 0; done < count; done += step) {
      const std::uint64_t n = std::min(step, count - done);
      buffer.resize(((n - 1) * stride + 1) * element_bytes_);
      storage_->read((source + done * stride) * element_bytes_, buffer);
      for (std::uint64_t i = 0; i < n; ++i) {
        std::copy_n(buffer.data() + i * stride * element_bytes_, element_bytes_, to + (done + i) * target_step);
      }
    }
  }

  std::shared_ptr<const TensorData> storage_;
  std::uint32_t element_bytes_;
  std::uint64_t offset_;  // elements
  std::vector<std::uint64_t> shape_, strides_, inner_;
  bool transposed_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<Block> blocks_;  // the last two that were wanted
};

// The storage element after the last one that the view touches; checks every step.
std::uint64_t view_end(std::uint64_t offset, std::span<const std::uint64_t> shape,
                       std::span<const std::int64_t> strides) {
  std::uint64_t last = offset;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::uint64_t reach = 0;
    if (strides[d] < 0) fail(ErrorCode::kCorrupt, "stride {} of dimension {} is negative", strides[d], d);
    if (!checked_mul(shape[d] - 1, static_cast<std::uint64_t>(strides[d]), reach) || !checked_add(last, reach, last)) {
      fail(ErrorCode::kCorrupt, "stride {} of dimension {} with size {} overflows", strides[d], d, shape[d]);
    }
  }
  if (!checked_add(last, 1, last)) fail(ErrorCode::kCorrupt, "storage offset {} overflows", offset);
  return last;
}

}  // namespace

std::shared_ptr<const TensorData> strided_tensor(std::shared_ptr<const TensorData> storage, std::uint32_t element_bytes,
                                                 std::uint64_t offset, std::span<const std::uint64_t> shape,
                                                 std::span<const std::int64_t> strides) {
  if (shape.size() != strides.size()) {
    fail(ErrorCode::kCorrupt, "{} dimensions, but {} strides", shape.size(), strides.size());
  }
  const std::uint64_t count = element_count(shape);
  const std::uint64_t available = storage->size_bytes() / element_bytes;
  if (count == 0) return memory_tensor({});
  const std::uint64_t end = view_end(offset, shape, strides);
  if (end > available) {
    fail(ErrorCode::kCorrupt, "the view reaches element {} of a storage of {} elements", end - 1, available);
  }
  std::uint64_t bytes = 0;
  if (!checked_mul(count, element_bytes, bytes) || bytes > (std::uint64_t{1} << 62)) {
    fail(ErrorCode::kCorrupt, "the tensor's size does not fit 62 bits");
  }
  bool contiguous = true;
  std::uint64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && static_cast<std::uint64_t>(strides[d]) != expected) contiguous = false;
    expected *= shape[d];
  }
  const auto range = storage->file_range();
  if (contiguous && range) return file_tensor(range->file, range->offset + offset * element_bytes, bytes);
  if (contiguous && offset == 0 && bytes == storage->size_bytes()) return storage;
  return std::make_shared<StridedTensor>(std::move(storage), element_bytes, offset,
                                         std::vector<std::uint64_t>(shape.begin(), shape.end()),
                                         std::vector<std::uint64_t>(strides.begin(), strides.end()));
}

}  // namespace wconv
