#include "passes/cast_tensor.h"

#include <algorithm>
#include <array>

#include "passes/integer_cast.h"
#include "wconv/error.h"

namespace wconv::passes {
namespace {

constexpr std::size_t kGrid = 4096;     // elements converted at a time: all buffers stay in the first cache
constexpr std::size_t kMaxPacking = 4;  // elements of the widest packed group

std::uint64_t packed_bytes(const DTypeInfo& dtype, std::uint64_t elements) {
  return (elements + dtype.block_elements - 1) / dtype.block_elements * dtype.block_bytes;
}

}  // namespace

CastTensor::CastTensor(std::shared_ptr<const TensorData> source, DType from, DType to,
                       const std::vector<std::uint64_t>& shape, Overflow mode)
    : source_(std::move(source)), from_(from), to_(to), elements_(element_count(shape)), mode_(mode) {
  try {
    size_bytes_ = storage_bytes(to, shape);
  } catch (const Error& error) {
    fail(ErrorCode::kUsage, "a cast to {} is not possible: {}", name(to), error.message());
  }
}

EncodeResult CastTensor::convert(std::uint64_t first, std::size_t n, std::span<std::byte> out) const {
  std::array<std::byte, (kGrid + 2 * kMaxPacking) * 8> bytes;
  const DTypeInfo& from = info(from_);
  const std::size_t skip = first % from.block_elements, wanted = skip + n;
  const std::uint64_t begin = (first - skip) / from.block_elements * from.block_bytes;
  const auto in = std::span(bytes).first(std::min(packed_bytes(from, wanted), source_->size_bytes() - begin));
  source_->read(begin, in);
  if (from.kind != DTypeKind::kFloat) return cast_integers(from_, in, skip, n, to_, out);
  if (fits_f32(from_)) {
    std::array<float, kGrid + kMaxPacking> values;
    decode_f32(from_, in, std::span(values).first(wanted));
    return encode_f32(to_, std::span(values).subspan(skip, n), out, mode_);
  }
  std::array<double, kGrid + kMaxPacking> values;
  decode_f64(from_, in, std::span(values).first(wanted));
  return encode_f64(to_, std::span(values).subspan(skip, n), out, mode_);
}

void CastTensor::read(std::uint64_t offset, std::span<std::byte> out) const {
  const DTypeInfo& to = info(to_);
  if (offset > size_bytes_ || out.size() > size_bytes_ - offset)
    fail(ErrorCode::kInternal, "bytes {} to {} of a tensor of {} bytes", offset, offset + out.size(), size_bytes_);
  std::uint64_t element = offset / to.block_bytes * to.block_elements;
  while (!out.empty()) {
    const std::uint64_t cell = element / kGrid, cell_end = std::min((cell + 1) * kGrid, elements_);
    const std::uint64_t room = out.size() / to.block_bytes * to.block_elements;  // the last group may be cut short
    const auto n =
        static_cast<std::size_t>(packed_bytes(to, cell_end - element) <= out.size() ? cell_end - element : room);
    if (n == 0) fail(ErrorCode::kInternal, "a read of {} that ends inside an element", name(to_));
    const std::size_t size = std::min<std::size_t>(packed_bytes(to, n), out.size());
    EncodeResult result = convert(element, n, out.first(size));
    if (result.overflowed != 0) {
      const auto whole = static_cast<std::size_t>(cell_end - cell * kGrid);
      std::array<std::byte, (kGrid + kMaxPacking) * 8> scratch;
      if (n != whole) result = convert(cell * kGrid, whole, scratch);
      record(cell, result);
    }
    element += n;
    out = out.subspan(size);
  }
}

void CastTensor::record(std::uint64_t grid_cell, const EncodeResult& cell) const {
  const std::lock_guard lock(mutex_);
  if (counted_.empty()) counted_.resize((elements_ + kGrid - 1) / kGrid);
  if (counted_[grid_cell]) return;
  counted_[grid_cell] = true;
  const std::uint64_t first = grid_cell * kGrid + cell.first;
  overflow_.first = overflow_.elements == 0 ? first : std::min(overflow_.first, first);
  overflow_.elements += cell.overflowed;
}

OverflowCount CastTensor::overflow() const {
  const std::lock_guard lock(mutex_);
  return overflow_;
}

}  // namespace wconv::passes
