#include "output_place.h"

#include <algorithm>
#include <filesystem>

#include "compress.h"
#include "core/zstd_file.h"
#include "wconv/error.h"
#include "wconv/manifest.h"

namespace wconv::tool {

Target resolve_target(const ConvertOptions& options) {
  Target target;
  const std::string& path = options.output;
  const bool slash = path.ends_with('/');
  const std::string extension = std::filesystem::path(without_zst(path)).extension().string();
  target.writer = find_writer_by_extension(path);
  target.folder = slash || options.to == "hf" || (extension.empty() && options.to.empty() && without_zst(path) == path);
  if (!options.to.empty() && options.to != "hf") {
    target.writer = find_writer(options.to);
    if (!target.writer)
      fail(ErrorCode::kUsage, "--to {}: wconv writes safetensors, pytorch, gguf, onnx and hf", options.to);
  } else if (target.folder) {
    target.writer = find_writer("safetensors");
  }
  if (!target.writer) {
    fail(ErrorCode::kUsage,
         "{}: the extension '{}' names no format that wconv writes (.safetensors, .pth, .pt, .bin, "
         ".gguf, .onnx, or none for a Hugging Face folder; .zst may follow); --to says it",
         path, extension);
  }
  return target;
}

OutputPlace place_of(const ConvertOptions& options, const Target& target) {
  OutputPlace place;
  place.path = options.output;
  while (place.path.size() > 1 && place.path.ends_with('/')) place.path.pop_back();
  const std::string parent = std::filesystem::path(place.path).parent_path().string();
  place.prefix = target.folder ? place.path + "/" : parent.empty() ? "" : parent == "/" ? parent : parent + "/";
  place.write.folder = target.folder;
  if (!target.folder) place.file_name = std::filesystem::path(place.path).filename().string();
  place.write.file_name = without_zst(place.file_name);
  place.zstd_level = compression_level(options.compress, target.folder ? "" : place.path);
  if (!options.shard_size.empty()) place.write.shard_size = parse_size("--shard-size", options.shard_size);
  return place;
}

std::string manifest_of(const OutputPlace& place, const Layout& layout) {
  const bool named = std::any_of(layout.files.begin(), layout.files.end(),
                                 [&](const OutputFile& file) { return file.name == place.file_name; });
  return manifest_name(named ? place.file_name : place.write.file_name, place.write.folder);
}

}  // namespace wconv::tool
