// What holds for every input of a reader: it is refused with an Error that is not our bug, or the model keeps its
// promises.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "wconv/file.h"
#include "wconv/model.h"

namespace wconv::fuzz {

using OpenFunction = std::function<Model(std::shared_ptr<const File>)>;

// Opens the bytes, reads from every tensor, and plans the model in every format. Aborts where a promise is broken.
void check_reader(const OpenFunction& open, std::span<const std::byte> bytes);

// Opens with the reader of that name, whatever the first bytes say.
void check_format(std::string_view format, std::span<const std::byte> bytes);

}  // namespace wconv::fuzz
