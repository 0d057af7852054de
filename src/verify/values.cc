#include "verify/values.h"

#include <algorithm>

#include "wconv/error.h"

namespace wconv::verify_detail {
namespace {

std::uint64_t bytes_before(DType dtype, std::uint64_t value) {
  const DTypeInfo& type = info(dtype);
  return (value + type.block_elements - 1) / type.block_elements * type.block_bytes;
}

}  // namespace

ValueType value_type(DType dtype) {
  switch (dtype) {
    case DType::kC32:
      return {DType::kF16, 2};
    case DType::kC64:
      return {DType::kF32, 2};
    case DType::kC128:
      return {DType::kF64, 2};
    default:
      return {dtype, 1};
  }
}

std::uint64_t value_count(const TensorInfo& info) {
  return element_count(info.shape) * value_type(info.dtype).per_element;
}

void read_values(const Tensor& tensor, std::uint64_t begin, std::uint64_t count, std::vector<std::byte>& bytes) {
  const DType dtype = value_type(tensor.info.dtype).dtype;
  const std::uint64_t offset = bytes_before(dtype, begin);
  bytes.resize(bytes_before(dtype, begin + count) - offset);
  if (bytes.empty()) return;
  try {
    tensor.data->read(offset, bytes);
  } catch (Error& error) {
    throw error.in_tensor(tensor.info.name);
  }
}

std::span<const std::byte> bytes_from(DType value_dtype, std::span<const std::byte> bytes, std::uint64_t index) {
  return bytes.subspan(bytes_before(value_dtype, index));
}

}  // namespace wconv::verify_detail
