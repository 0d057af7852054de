// Storage types: one table with size, kind and the name in each format.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace wconv {

// clang-format off
enum class DType : std::uint8_t {
  kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64,
  kF16, kBF16, kF32, kF64, kC32, kC64, kC128,
  kF8E4M3, kF8E5M2, kF8E4M3Fnuz, kF8E5M2Fnuz, kF8E8M0, kF6E2M3, kF6E3M2, kF4,
  kU4, kI4, kU2, kI2,
  // ggml block types
  kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ8_1, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kQ8_K,
  kIQ2_XXS, kIQ2_XS, kIQ3_XXS, kIQ1_S, kIQ4_NL, kIQ3_S, kIQ2_S, kIQ4_XS, kIQ1_M,
  kTQ1_0, kTQ2_0, kMXFP4, kNVFP4, kQ1_0, kQ2_0,
};
// clang-format on

enum class DTypeKind : std::uint8_t { kBool, kUnsigned, kSigned, kFloat, kComplex, kBlock };

// A tensor's elements are stored in blocks of `block_elements` elements and `block_bytes` bytes.
// Plain types: 1 element. Sub-byte plain types (F4, F6, 4- and 2-bit ints): the smallest run of whole bytes,
// packed over the whole flattened tensor. kBlock (ggml): the innermost dimension is a multiple of a block.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  // wconv's own name, upper case: "F32", "Q4_K"
  DTypeKind kind;
  std::uint16_t block_elements;
  std::uint16_t block_bytes;
  std::string_view safetensors;  // name in a safetensors header; empty: it has none
  std::string_view torch;        // "float32" (torch.float32); empty: torch has none
  int ggml;                      // ggml_type; -1: GGUF has none
  int onnx;                      // TensorProto.DataType; -1: ONNX has none
  bool whole_bytes() const { return block_elements == 1; }
};

const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) { return info(dtype).name; }
std::span<const DTypeInfo> all_dtypes();

// Any case: "f32", "F8_E4M3", "q4_k". Empty when unknown.
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_safetensors(std::string_view name);  // exact case
std::optional<DType> dtype_from_torch(std::string_view name);
std::optional<DType> dtype_from_ggml(std::uint32_t id);
std::optional<DType> dtype_from_onnx(std::uint64_t data_type);

// Number of elements. Throws Error(kCorrupt) when a product, taken from the left, does not fit 64 bits.
std::uint64_t element_count(std::span<const std::uint64_t> shape);

// Bytes of a tensor stored in row-major order. Throws Error(kCorrupt) on overflow, and where the elements do
// not fill whole bytes (F4, F6) or whole blocks of the innermost dimension (ggml types).
std::uint64_t storage_bytes(DType dtype, std::span<const std::uint64_t> shape);

}  // namespace wconv
