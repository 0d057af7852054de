#include "wconv/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv {
namespace {

using enum DTypeKind;

// Sources: safetensors/src/tensor.rs (Dtype), torch/csrc ScalarType names, ggml.h (ggml_type, type_traits), onnx.proto
// (TensorProto.DataType). Rows stand in the order of DType; a test checks that and compares with gguf-py's table.
// clang-format off
constexpr auto kTable = std::to_array<DTypeInfo>({
  // dtype              name           kind  elements bytes safetensors   torch              ggml onnx
  {DType::kBool,       "BOOL",        kBool,     1,   1, "BOOL",        "bool",             -1,  9},
  {DType::kU8,         "U8",          kUnsigned, 1,   1, "U8",          "uint8",            -1,  2},
  {DType::kI8,         "I8",          kSigned,   1,   1, "I8",          "int8",             24,  3},
  {DType::kU16,        "U16",         kUnsigned, 1,   2, "U16",         "uint16",           -1,  4},
  {DType::kI16,        "I16",         kSigned,   1,   2, "I16",         "int16",            25,  5},
  {DType::kU32,        "U32",         kUnsigned, 1,   4, "U32",         "uint32",           -1, 12},
  {DType::kI32,        "I32",         kSigned,   1,   4, "I32",         "int32",            26,  6},
  {DType::kU64,        "U64",         kUnsigned, 1,   8, "U64",         "uint64",           -1, 13},
  {DType::kI64,        "I64",         kSigned,   1,   8, "I64",         "int64",            27,  7},
  {DType::kF16,        "F16",         kFloat,    1,   2, "F16",         "float16",           1, 10},
  {DType::kBF16,       "BF16",        kFloat,    1,   2, "BF16",        "bfloat16",         30, 16},
  {DType::kF32,        "F32",         kFloat,    1,   4, "F32",         "float32",           0,  1},
  {DType::kF64,        "F64",         kFloat,    1,   8, "F64",         "float64",          28, 11},
  {DType::kC32,        "C32",         kComplex,  1,   4, "",            "complex32",        -1, -1},
  {DType::kC64,        "C64",         kComplex,  1,   8, "C64",         "complex64",        -1, 14},
  {DType::kC128,       "C128",        kComplex,  1,  16, "",            "complex128",       -1, 15},
  {DType::kF8E4M3,     "F8_E4M3",     kFloat,    1,   1, "F8_E4M3",     "float8_e4m3fn",    -1, 17},
  {DType::kF8E5M2,     "F8_E5M2",     kFloat,    1,   1, "F8_E5M2",     "float8_e5m2",      -1, 19},
  {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", kFloat,    1,   1, "F8_E4M3FNUZ", "float8_e4m3fnuz",  -1, 18},
  {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", kFloat,    1,   1, "F8_E5M2FNUZ", "float8_e5m2fnuz",  -1, 20},
  {DType::kF8E8M0,     "F8_E8M0",     kFloat,    1,   1, "F8_E8M0",     "float8_e8m0fnu",   -1, 24},
  {DType::kF6E2M3,     "F6_E2M3",     kFloat,    4,   3, "F6_E2M3",     "",                 -1, 27},
  {DType::kF6E3M2,     "F6_E3M2",     kFloat,    4,   3, "F6_E3M2",     "",                 -1, 28},
  {DType::kF4,         "F4",          kFloat,    2,   1, "F4",          "",                 -1, 23},
  {DType::kU4,         "U4",          kUnsigned, 2,   1, "",            "",                 -1, 21},
  {DType::kI4,         "I4",          kSigned,   2,   1, "",            "",                 -1, 22},
  {DType::kU2,         "U2",          kUnsigned, 4,   1, "",            "",                 -1, 25},
  {DType::kI2,         "I2",          kSigned,   4,   1, "",            "",                 -1, 26},
  {DType::kQ4_0,       "Q4_0",        kBlock,   32,  18, "", "",  2, -1},
  {DType::kQ4_1,       "Q4_1",        kBlock,   32,  20, "", "",  3, -1},
  {DType::kQ5_0,       "Q5_0",        kBlock,   32,  22, "", "",  6, -1},
  {DType::kQ5_1,       "Q5_1",        kBlock,   32,  24, "", "",  7, -1},
  {DType::kQ8_0,       "Q8_0",        kBlock,   32,  34, "", "",  8, -1},
  {DType::kQ8_1,       "Q8_1",        kBlock,   32,  36, "", "",  9, -1},
  {DType::kQ2_K,       "Q2_K",        kBlock,  256,  84, "", "", 10, -1},
  {DType::kQ3_K,       "Q3_K",        kBlock,  256, 110, "", "", 11, -1},
  {DType::kQ4_K,       "Q4_K",        kBlock,  256, 144, "", "", 12, -1},
  {DType::kQ5_K,       "Q5_K",        kBlock,  256, 176, "", "", 13, -1},
  {DType::kQ6_K,       "Q6_K",        kBlock,  256, 210, "", "", 14, -1},
  {DType::kQ8_K,       "Q8_K",        kBlock,  256, 292, "", "", 15, -1},
  {DType::kIQ2_XXS,    "IQ2_XXS",     kBlock,  256,  66, "", "", 16, -1},
  {DType::kIQ2_XS,     "IQ2_XS",      kBlock,  256,  74, "", "", 17, -1},
  {DType::kIQ3_XXS,    "IQ3_XXS",     kBlock,  256,  98, "", "", 18, -1},
  {DType::kIQ1_S,      "IQ1_S",       kBlock,  256,  50, "", "", 19, -1},
  {DType::kIQ4_NL,     "IQ4_NL",      kBlock,   32,  18, "", "", 20, -1},
  {DType::kIQ3_S,      "IQ3_S",       kBlock,  256, 110, "", "", 21, -1},
  {DType::kIQ2_S,      "IQ2_S",       kBlock,  256,  82, "", "", 22, -1},
  {DType::kIQ4_XS,     "IQ4_XS",      kBlock,  256, 136, "", "", 23, -1},
  {DType::kIQ1_M,      "IQ1_M",       kBlock,  256,  56, "", "", 29, -1},
  {DType::kTQ1_0,      "TQ1_0",       kBlock,  256,  54, "", "", 34, -1},
  {DType::kTQ2_0,      "TQ2_0",       kBlock,  256,  66, "", "", 35, -1},
  {DType::kMXFP4,      "MXFP4",       kBlock,   32,  17, "", "", 39, -1},
  {DType::kNVFP4,      "NVFP4",       kBlock,   64,  36, "", "", 40, -1},
  {DType::kQ1_0,       "Q1_0",        kBlock,  128,  18, "", "", 41, -1},
  {DType::kQ2_0,       "Q2_0",        kBlock,   64,  18, "", "", 42, -1},
});
// clang-format on

template <typename Match>
std::optional<DType> find_row(const Match& match) {
  const auto row = std::find_if(kTable.begin(), kTable.end(), match);
  if (row == kTable.end()) return std::nullopt;
  return row->dtype;
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }
std::span<const DTypeInfo> all_dtypes() { return kTable; }

std::optional<DType> dtype_from_name(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return find_row([&](const DTypeInfo& row) { return row.name == upper; });
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return find_row([&](const DTypeInfo& row) { return row.safetensors == name; });
}

std::optional<DType> dtype_from_torch(std::string_view name) {
  if (name.empty()) return std::nullopt;
  return find_row([&](const DTypeInfo& row) { return row.torch == name; });
}

std::optional<DType> dtype_from_ggml(std::uint32_t id) {
  return find_row([&](const DTypeInfo& row) { return row.ggml >= 0 && static_cast<std::uint32_t>(row.ggml) == id; });
}

std::optional<DType> dtype_from_onnx(std::uint64_t data_type) {
  return find_row(
      [&](const DTypeInfo& row) { return row.onnx >= 0 && static_cast<std::uint64_t>(row.onnx) == data_type; });
}

std::uint64_t element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) {
    if (!checked_mul(count, dim, count)) {
      fail(ErrorCode::kCorrupt, "the product of the dimensions does not fit 64 bits");
    }
  }
  return count;
}

std::uint64_t storage_bytes(DType dtype, std::span<const std::uint64_t> shape) {
  const DTypeInfo& type = info(dtype);
  const std::uint64_t count = element_count(shape);
  if (type.kind == kBlock && (shape.empty() ? 1 : shape.back()) % type.block_elements != 0) {
    fail(ErrorCode::kCorrupt, "{} packs blocks of {} elements, but the innermost dimension is {}", type.name,
         type.block_elements, shape.empty() ? 1 : shape.back());
  }
  const bool floats = type.kind == kFloat;
  if (floats && count % type.block_elements != 0) {
    fail(ErrorCode::kCorrupt, "{} elements of {} do not fill whole bytes", count, type.name);
  }
  const std::uint64_t blocks = count / type.block_elements + (count % type.block_elements != 0);
  std::uint64_t bytes = 0;
  if (!checked_mul(blocks, type.block_bytes, bytes) || bytes > (std::uint64_t{1} << 62)) {
    fail(ErrorCode::kCorrupt, "the tensor's size does not fit 62 bits");
  }
  return bytes;
}

}  // namespace wconv
