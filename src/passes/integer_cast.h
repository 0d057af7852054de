// Integers to integers, exactly.
#pragma once

#include <span>

#include "wconv/numeric.h"

namespace wconv::passes {

// Elements [skip, skip + n) of `in`, types as in CastTensor. What doesn't fit is counted and becomes the nearest value.
EncodeResult cast_integers(DType from, std::span<const std::byte> in, std::size_t skip, std::size_t n, DType to,
                           std::span<std::byte> out);

}  // namespace wconv::passes
