// Files that stand where a model should be, and what to do about them.
#pragma once

#include <cstddef>
#include <span>

#include "wconv/file.h"

namespace wconv {

// `head`: up to 4 KiB from the file's start. Throws when the file is recognised as something that is no model: a Git
// LFS pointer or DVC stub (kMissing), an empty file, error page, archive or unfinished download (kCorrupt), another
// framework's format (kUnsupported). `recognised`: the content is that of a model, which could not be read: signs that
// a sound model may bear by chance are left out.
void refuse_known_impostors(const File& file, std::span<const std::byte> head, bool recognised);

}  // namespace wconv
