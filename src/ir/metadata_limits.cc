#include "ir/metadata_limits.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

namespace wconv {
namespace {

struct Row {
  MetaKind kind;
  int bits;  // of integers
};

// By the number of the type.
constexpr std::array<Row, 13> kRows = {{
    {MetaKind::kUnsigned, 8},   // u8
    {MetaKind::kSigned, 8},     // i8
    {MetaKind::kUnsigned, 16},  // u16
    {MetaKind::kSigned, 16},    // i16
    {MetaKind::kUnsigned, 32},  // u32
    {MetaKind::kSigned, 32},    // i32
    {MetaKind::kReal, 0},       // f32
    {MetaKind::kUnsigned, 8},   // bool
    {MetaKind::kString, 0},     // string
    {MetaKind::kArray, 0},      // array
    {MetaKind::kUnsigned, 64},  // u64
    {MetaKind::kSigned, 64},    // i64
    {MetaKind::kReal, 0},       // f64
}};
static_assert(kRows.size() == static_cast<std::size_t>(MetaType::kF64) + 1);

}  // namespace

MetaKind meta_kind(MetaType type) { return kRows[static_cast<std::size_t>(type)].kind; }

MetaLimits meta_limits(MetaType type) {
  const auto [kind, bits] = kRows[static_cast<std::size_t>(type)];
  if (kind == MetaKind::kUnsigned) return {0, std::numeric_limits<std::uint64_t>::max() >> (64 - bits)};
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return {-most - 1, static_cast<std::uint64_t>(most)};
}

std::optional<double> meta_real(MetaType type, double number) {
  if (type == MetaType::kF64) return number;
  const auto narrow = static_cast<float>(number);
  if (std::isinf(narrow) && !std::isinf(number)) return std::nullopt;
  return narrow;
}

std::string meta_allowed(MetaType type) {
  if (type == MetaType::kBool) return "a bool (true or false)";
  const MetaKind kind = meta_kind(type);
  const bool integer = kind == MetaKind::kUnsigned || kind == MetaKind::kSigned;
  const std::string limits =
      integer ? fmt::format(" ({} to {})", meta_limits(type).least, meta_limits(type).most) : std::string();
  const bool vowel = kind == MetaKind::kSigned || kind == MetaKind::kReal || kind == MetaKind::kArray;
  return fmt::format("{} {}{}", vowel ? "an" : "a", meta_type_name(type), limits);
}

}  // namespace wconv
