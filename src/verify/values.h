// The values of a tensor as binary64, slice by slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wconv/tensor.h"

namespace wconv::verify_detail {

// Values of one task of parallel work, and of one step of decoding inside it. Fixed, so that sums do not depend on
// the number of threads. Both are multiples of every packed group.
inline constexpr std::uint64_t kTaskValues = 256 * 1024;
inline constexpr std::size_t kSliceValues = 8 * 1024;

// A complex element is two values of `dtype`; any other is one value of its own type.
struct ValueType {
  DType dtype;
  std::uint64_t per_element = 1;
};
ValueType value_type(DType dtype);
inline bool has_values(DType dtype) { return info(dtype).kind != DTypeKind::kBlock; }
std::uint64_t value_count(const TensorInfo& info);

// Fills `bytes` with the stored bytes of the values [begin, begin + count); begin is a multiple of kSliceValues.
// Throws as TensorData::read, with the tensor's name.
void read_values(const Tensor& tensor, std::uint64_t begin, std::uint64_t count, std::vector<std::byte>& bytes);

// The bytes of value `index` and after, in what read_values gave. `index` is a multiple of kSliceValues.
std::span<const std::byte> bytes_from(DType value_dtype, std::span<const std::byte> bytes, std::uint64_t index);

}  // namespace wconv::verify_detail
