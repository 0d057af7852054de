// What values the types of metadata have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "wconv/model.h"

namespace wconv {

enum class MetaKind { kUnsigned, kSigned, kReal, kString, kArray };  // kUnsigned: bool, too
MetaKind meta_kind(MetaType type);

struct MetaLimits {
  std::int64_t least;
  std::uint64_t most;
};
// Of the integer types and of bool, which is a byte: GGUF has some that are neither 0 nor 1.
MetaLimits meta_limits(MetaType type);

// `number` as the float type `type` has it; nothing where a finite one would become infinite.
std::optional<double> meta_real(MetaType type, double number);

// The values of a type, for messages: "a u8 (0 to 255)", "an f32", "a bool (true or false)".
std::string meta_allowed(MetaType type);

}  // namespace wconv
