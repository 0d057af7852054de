// Files whose content is zstd, read as what they unpack to.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/zstd_frames.h"
#include "wconv/file.h"

namespace wconv {

// Where the file's content is zstd (told by its first bytes, never by its name): the content, unpacked when it is read,
// with bounded memory. Any other file: itself. Frames of up to 8 MiB that state their sizes are unpacked where they are
// needed, by any thread; anything else from the front to where it has been read, into a temporary file. Throws
// Error(kCorrupt | kUnsupported | kIo).
std::shared_ptr<const File> unpacked(std::shared_ptr<const File> file);

// "out.pth" for out.pth.zst, and for itself.
std::string_view without_zst(std::string_view path);
// `path` or, where only that is there, `path`.zst.
std::string plain_or_zst(const std::string& path);
// Opens that and unpacks it. Throws as File::open and unpacked.
std::shared_ptr<const File> open_unpacked(const std::string& path);

// The parts of it. `index` is that of `stored`.
std::unique_ptr<const FileContent> zstd_frame_content(std::shared_ptr<const File> stored, ZstdIndex index);
std::unique_ptr<const FileContent> zstd_stream_content(std::shared_ptr<const File> stored, const ZstdIndex& index);

}  // namespace wconv
