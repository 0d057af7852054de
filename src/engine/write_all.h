// Writing by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "wconv/descriptor.h"

namespace wconv::engine {

// Writes all of `bytes` at `offset`. Throws Error(kIo) with the file's name and the offset.
void write_all(const Descriptor& descriptor, std::uint64_t offset, std::span<const std::byte> bytes,
               const std::string& name);

}  // namespace wconv::engine
