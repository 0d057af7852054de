// Python's integers of any size.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace wconv::pytorch {

// `bytes`: little-endian, two's complement, not empty. Decimal text; hexadecimal of the bytes from 1 KiB on.
std::string long_text(std::span<const std::byte> bytes);

}  // namespace wconv::pytorch
