// A tensor in another plain type, converted while it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "wconv/numeric.h"
#include "wconv/tensor.h"

namespace wconv::passes {

// Both types are floats, or both integers (or BOOL, as 0 and 1). Memory: fixed buffers on the stack of the reading
// thread, and one bit for each 4096 elements once something has overflowed.
class CastTensor final : public TensorData {
 public:
  // Throws Error(kUsage) when `shape` doesn't fill whole bytes of `to`.
  CastTensor(std::shared_ptr<const TensorData> source, DType from, DType to, const std::vector<std::uint64_t>& shape,
             Overflow mode);
  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  OverflowCount overflow() const override;

 private:
  // Elements [first, first + n) into `out`; n is at most kGrid, `first` a multiple of the packing of `to`.
  EncodeResult convert(std::uint64_t first, std::size_t n, std::span<std::byte> out) const;
  void record(std::uint64_t grid_cell, const EncodeResult& cell) const;

  std::shared_ptr<const TensorData> source_;
  DType from_, to_;
  std::uint64_t elements_, size_bytes_;
  Overflow mode_;

  // Overflow is counted by cells of a fixed grid, each once, however the reads are cut.
  mutable std::mutex mutex_;
  mutable std::vector<bool> counted_;
  mutable OverflowCount overflow_;
};

}  // namespace wconv::passes
