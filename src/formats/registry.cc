// Every format, in probing order. Adding one is a line in each list.
#include <algorithm>
#include <array>
#include <filesystem>

#include "core/zstd_file.h"
#include "formats/gguf/gguf.h"
#include "formats/onnx/onnx.h"
#include "formats/pytorch/pytorch.h"
#include "formats/safetensors/safetensors.h"
#include "wconv/format.h"

namespace wconv {

std::span<const FormatReader* const> readers() {
  static const std::array<const FormatReader*, 4> kReaders = {&gguf_reader(), &safetensors_reader(), &pytorch_reader(),
                                                              &onnx_reader()};
  return kReaders;
}

std::span<const FormatWriter* const> writers() {
  static const std::array<const FormatWriter*, 4> kWriters = {&safetensors_writer(), &pytorch_writer(), &gguf_writer(),
                                                              &onnx_writer()};
  return kWriters;
}

const FormatWriter* find_writer(std::string_view name) {
  const auto found = std::find_if(writers().begin(), writers().end(), [&](const auto* w) { return w->name() == name; });
  return found == writers().end() ? nullptr : *found;
}

const FormatWriter* find_writer_by_extension(std::string_view path) {
  path = without_zst(path);
  const std::string extension = std::filesystem::path(path).extension().string();
  for (const FormatWriter* writer : writers()) {
    const auto known = writer->extensions();
    if (std::find(known.begin(), known.end(), extension) != known.end()) return writer;
  }
  return nullptr;
}

}  // namespace wconv
