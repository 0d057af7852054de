#include "passes/integer_cast.h"

#include <algorithm>
#include <cstring>

namespace wconv::passes {
namespace {

using Wide = __int128;  // holds every I64 and U64

struct IntegerType {
  explicit IntegerType(DType dtype) {
    const DTypeInfo& row = info(dtype);
    bits = 8u * row.block_bytes / row.block_elements;
    is_signed = row.kind == DTypeKind::kSigned;
    is_bool = row.kind == DTypeKind::kBool;
    lowest = is_signed ? -(Wide{1} << (bits - 1)) : Wide{0};
    highest = is_bool ? Wide{1} : (Wide{1} << (is_signed ? bits - 1 : bits)) - 1;
  }
  unsigned bits;
  bool is_signed, is_bool;
  Wide lowest, highest;
};

Wide load(const IntegerType& type, std::span<const std::byte> in, std::size_t i) {
  std::uint64_t code = 0;
  if (type.bits >= 8) {
    std::memcpy(&code, in.data() + i * (type.bits / 8), type.bits / 8);
  } else {  // 2 and 4 bits never cross a byte
    code = (std::to_integer<std::uint64_t>(in[i * type.bits / 8]) >> (i * type.bits % 8)) & ((1u << type.bits) - 1);
  }
  if (type.is_bool) return code != 0;
  const Wide value = code;
  return type.is_signed && value > type.highest ? value - (Wide{1} << type.bits) : value;
}

void store(const IntegerType& type, std::span<std::byte> out, std::size_t i, Wide value) {
  const auto code = static_cast<std::uint64_t>(value);
  if (type.bits >= 8) {
    std::memcpy(out.data() + i * (type.bits / 8), &code, type.bits / 8);
    return;
  }
  const std::uint64_t bits = (code & ((1u << type.bits) - 1)) << (i * type.bits % 8);
  std::byte& byte = out[i * type.bits / 8];
  byte = (i * type.bits % 8 == 0 ? std::byte{0} : byte) | static_cast<std::byte>(bits);
}

}  // namespace

EncodeResult cast_integers(DType from, std::span<const std::byte> in, std::size_t skip, std::size_t n, DType to,
                           std::span<std::byte> out) {
  const IntegerType source(from), target(to);
  EncodeResult result;
  for (std::size_t i = 0; i < n; ++i) {
    const Wide value = load(source, in, skip + i), fitting = std::clamp(value, target.lowest, target.highest);
    if (value != fitting && result.overflowed++ == 0) result.first = i;
    store(target, out, i, fitting);
  }
  return result;
}

}  // namespace wconv::passes
