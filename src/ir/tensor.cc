#include "wconv/tensor.h"

#include <algorithm>

#include "wconv/byte_reader.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace {

class FileTensor final : public TensorData {
 public:
  explicit FileTensor(FileRange range) : range_(std::move(range)) {}
  std::uint64_t size_bytes() const override { return range_.size; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    range_.file->read(range_.offset + offset, out);
  }
  std::optional<FileRange> file_range() const override { return range_; }

 private:
  FileRange range_;
};

class MemoryTensor final : public TensorData {
 public:
  explicit MemoryTensor(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }

 private:
  std::vector<std::byte> bytes_;
};

class SwappedTensor final : public TensorData {
 public:
  SwappedTensor(std::shared_ptr<const TensorData> source, std::uint32_t element_bytes)
      : source_(std::move(source)), element_bytes_(element_bytes) {}
  std::uint64_t size_bytes() const override { return source_->size_bytes(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    source_->read(offset, out);
    for (std::size_t i = 0; i + element_bytes_ <= out.size(); i += element_bytes_) {
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(i),
                   out.begin() + static_cast<std::ptrdiff_t>(i + element_bytes_));
    }
  }

 private:
  std::shared_ptr<const TensorData> source_;
  std::uint32_t element_bytes_;
};

class NegatedTensor final : public TensorData {
 public:
  NegatedTensor(std::shared_ptr<const TensorData> source, std::uint32_t float_bytes, Negated which)
      : source_(std::move(source)), step_(which == Negated::kAll ? float_bytes : 2 * float_bytes), sign_(step_ - 1) {}
  std::uint64_t size_bytes() const override { return source_->size_bytes(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    source_->read(offset, out);
    for (std::uint64_t i = (sign_ + step_ - offset % step_) % step_; i < out.size(); i += step_)
      out[i] ^= std::byte{0x80};
  }

 private:
  std::shared_ptr<const TensorData> source_;
  std::uint64_t step_, sign_;  // bytes from one sign to the next, and before the first
};

}  // namespace

std::shared_ptr<const TensorData> file_tensor(std::shared_ptr<const File> file, std::uint64_t offset,
                                              std::uint64_t size_bytes) {
  if (offset > file->size() || size_bytes > file->size() - offset) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} bytes are claimed, but the file ends at byte {}", size_bytes, file->size()))
        .in_file(file->path())
        .at(offset);
  }
  return std::make_shared<FileTensor>(FileRange{std::move(file), offset, size_bytes});
}

std::shared_ptr<const TensorData> memory_tensor(std::vector<std::byte> bytes) {
  return std::make_shared<MemoryTensor>(std::move(bytes));
}

std::shared_ptr<const TensorData> swapped_tensor(std::shared_ptr<const TensorData> source,
                                                 std::uint32_t element_bytes) {
  if (element_bytes == 1) return source;
  return std::make_shared<SwappedTensor>(std::move(source), element_bytes);
}

std::shared_ptr<const TensorData> negated_tensor(std::shared_ptr<const TensorData> source, std::uint32_t float_bytes,
                                                 Negated which) {
  return std::make_shared<NegatedTensor>(std::move(source), float_bytes, which);
}

}  // namespace wconv
