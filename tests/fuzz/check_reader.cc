#include "check_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv::fuzz {
namespace {

constexpr std::uint64_t kReadBytes = 64 * 1024;

void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

void check_tensor(const Tensor& tensor) {
  const DTypeInfo& dtype = info(tensor.info.dtype);
  const std::uint64_t size = tensor.data->size_bytes();
  require(size == storage_bytes(tensor.info.dtype, tensor.info.shape), "size is that of dtype and shape");
  if (const auto range = tensor.data->file_range()) {
    require(range->offset <= range->file->size() && range->size <= range->file->size() - range->offset,
            "the tensor lies inside its file");
    require(range->size == size, "the range has the tensor's size");
  }
  const std::uint64_t part = std::min(size, kReadBytes - kReadBytes % dtype.block_bytes);
  std::vector<std::byte> bytes(part);
  if (part == 0) return;
  tensor.data->read(0, bytes);
  const std::uint64_t last = (size - part) / dtype.block_bytes * dtype.block_bytes;
  bytes.resize(size - last);
  tensor.data->read(last, bytes);
}

std::uint64_t piece_size(const Piece& piece) {
  if (const auto* literal = std::get_if<LiteralPiece>(&piece.content)) return literal->bytes.size();
  if (const auto* tensor = std::get_if<TensorPiece>(&piece.content)) return tensor->size;
  if (const auto* file = std::get_if<FilePiece>(&piece.content)) return file->range.size;
  return 4;
}

void check_layout(const Layout& layout, const Model& model) {
  for (const OutputFile& file : layout.files) {
    std::uint64_t end = 0;
    for (const Piece& piece : file.pieces) {
      require(piece.offset >= end, "pieces ascend and do not overlap");
      require(piece.offset <= file.size && piece_size(piece) <= file.size - piece.offset, "pieces lie inside the file");
      end = piece.offset + piece_size(piece);
      if (const auto* tensor = std::get_if<TensorPiece>(&piece.content)) {
        require(tensor->tensor < model.tensors.size(), "a piece names a tensor of the model");
        require(tensor->size == model.tensors[tensor->tensor].data->size_bytes(), "a piece holds all of its tensor");
      }
    }
  }
}

void check_model(const Model& model) {
  std::unordered_set<std::string> names;
  for (const Tensor& tensor : model.tensors) {
    require(names.insert(tensor.info.name).second, "names are unique");
    check_tensor(tensor);
  }
  const WriteOptions options{"out", false, 0};
  for (const FormatWriter* writer : writers()) {
    if (writer->check(model, options).empty()) check_layout(writer->plan(model, options), model);
  }
}

}  // namespace

void check_reader(const OpenFunction& open, std::span<const std::byte> bytes) {
  try {
    check_model(open(File::from_bytes("input", bytes)));
  } catch (const Error& error) {
    require(error.code() != ErrorCode::kInternal, error.what());
  }
}

void check_format(std::string_view format, std::span<const std::byte> bytes) {
  for (const FormatReader* reader : readers()) {
    if (reader->name() != format) continue;
    const auto open = [&](std::shared_ptr<const File> file) {
      try {
        return reader->open(std::move(file), {});
      } catch (const Error& error) {
        const bool has_place = error.code() == ErrorCode::kCorrupt && format != "pytorch";
        require(!has_place || error.offset().has_value(), error.what());
        throw;
      }
    };
    return check_reader(open, bytes);
  }
  require(false, "there is a reader of that name");
}

}  // namespace wconv::fuzz
