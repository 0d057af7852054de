#include "compress.h"

#include <algorithm>
#include <charconv>

#include "core/zstd_file.h"
#include "core/zstd_writer.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

constexpr std::string_view kEnding = ".zst";

bool has_weights(const OutputFile& file) {
  return std::any_of(file.pieces.begin(), file.pieces.end(),
                     [](const Piece& piece) { return std::holds_alternative<TensorPiece>(piece.content); });
}

}  // namespace

int compression_level(const std::string& option, std::string_view output) {
  if (option.empty()) return output.ends_with(kEnding) ? kZstdDefaultLevel : 0;
  if (option == "zstd") return kZstdDefaultLevel;
  int level = 0;
  if (option.starts_with("zstd:")) {
    const char *begin = option.data() + 5, *end = option.data() + option.size();
    const auto [stop, error] = std::from_chars(begin, end, level);
    if (error == std::errc() && stop == end && level >= 1 && level <= kZstdMaxLevel) return level;
  }
  fail(ErrorCode::kUsage, "--compress '{}' is neither zstd nor zstd:LEVEL with a level from 1 to {}", option,
       kZstdMaxLevel);
}

void compress_weights(Layout& layout, int level, const std::string& file_name) {
  if (level == 0) return;
  const std::string_view plain = without_zst(file_name);
  const bool with_main = layout.files.size() == 1 || plain != file_name;
  for (OutputFile& file : layout.files) {
    const bool is_main = with_main && !file_name.empty() && file.name == plain;
    if (!is_main && !has_weights(file)) continue;
    file.zstd_level = level;
    file.name = is_main ? file_name : file.name + std::string(kEnding);
  }
}

}  // namespace wconv::tool
