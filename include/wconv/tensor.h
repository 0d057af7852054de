// What a tensor is (TensorInfo), where its bytes come from (TensorData), and how it came to be (Transform).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wconv/dtype.h"

namespace wconv {

class File;  // wconv/file.h

// shape: outermost dimension first, whatever the file's own order.
struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> shape;
};

// Bytes that lie in a file exactly as they are to be written: little-endian, row-major, no gaps.
struct FileRange {
  std::shared_ptr<const File> file;
  std::uint64_t offset = 0;  // bytes from the start of the file
  std::uint64_t size = 0;    // bytes
};

// Counts of a lossy cast, per tensor. `first` is the flat row-major index of the lowest element concerned.
struct OverflowCount {
  std::uint64_t elements = 0;
  std::uint64_t first = 0;
};

// The bytes of one tensor, little-endian and row-major. Immutable; `read` may be called from many threads at once.
class TensorData {
 public:
  virtual ~TensorData() = default;
  virtual std::uint64_t size_bytes() const = 0;

  // Fills `out` with the bytes from `offset` on. `offset` is a multiple of the dtype's block_bytes, and so is
  // out.size() unless the range ends at the end of the tensor. Throws Error(kIo | kCorrupt).
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;

  // Set when the bytes lie in a file as they are, so that the engine may let the kernel copy them.
  virtual std::optional<FileRange> file_range() const { return std::nullopt; }

  // Values that became infinite (or were saturated) in what has been read so far. Reading a range again
  // doesn't count it twice.
  virtual OverflowCount overflow() const { return {}; }
};

// One step between the source's tensor and this one: `op` ("rename", "cast", …) and its parameters, in order,
// so that a later run can name the inverse. Recorded in the manifest.
struct Transform {
  std::string op;
  std::vector<std::pair<std::string, std::string>> parameters;
};

struct Tensor {
  TensorInfo info;
  std::shared_ptr<const TensorData> data;   // two tensors with one TensorData are tied
  std::shared_ptr<const File> source_file;  // the file that holds it; null: none
  std::uint64_t source_offset = 0;          // of its first byte in that file
  std::string source_name;                  // its name there; empty: info.name
  DType source_dtype = DType::kF32;         // its dtype there
  // A number of a graph rather than a weight (a bound, an epsilon, an operator's attribute): casts of all tensors leave
  // it as it is, casts by name do not.
  bool is_parameter = false;
  std::vector<Transform> transforms;  // oldest first
};

// Contiguous bytes of a file. Checks the range against the file's size: Error(kCorrupt).
std::shared_ptr<const TensorData> file_tensor(std::shared_ptr<const File> file, std::uint64_t offset,
                                              std::uint64_t size_bytes);
// Owned bytes.
std::shared_ptr<const TensorData> memory_tensor(std::vector<std::byte> bytes);
// Elements of `element_bytes` whose byte order is reversed: big-endian sources. Complex numbers: per part.
std::shared_ptr<const TensorData> swapped_tensor(std::shared_ptr<const TensorData> source, std::uint32_t element_bytes);
// Little-endian floating-point numbers of `float_bytes`, with the sign turned of all, or of every second one: the
// imaginary parts of complex numbers.
enum class Negated : std::uint8_t { kAll, kImaginary };
std::shared_ptr<const TensorData> negated_tensor(std::shared_ptr<const TensorData> source, std::uint32_t float_bytes,
                                                 Negated which);
// A view: element (i, j, …) lies at storage byte (offset + i·strides[0] + j·strides[1] + …) · element_bytes.
// offset and strides count elements. Throws Error(kCorrupt) when any element lies outside the storage or the
// arithmetic overflows; a contiguous view of a file tensor is itself a file tensor.
std::shared_ptr<const TensorData> strided_tensor(std::shared_ptr<const TensorData> storage, std::uint32_t element_bytes,
                                                 std::uint64_t offset, std::span<const std::uint64_t> shape,
                                                 std::span<const std::int64_t> strides);

}  // namespace wconv
