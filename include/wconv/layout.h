// The exact bytes of every output file, planned before any weight is computed. Writers make it, the engine executes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "wconv/tensor.h"

namespace wconv {

struct LiteralPiece {
  std::vector<std::byte> bytes;
};

// `size` bytes of the model's tensor number `tensor`, all of it.
struct TensorPiece {
  std::size_t tensor = 0;
  std::uint64_t size = 0;
  bool want_crc32 = false;  // a Crc32Piece of the same file will ask for it
};

// Bytes of an input file kept as they are (a side file, an ONNX graph around its weights).
struct FilePiece {
  FileRange range;
};

// Four bytes, little-endian: the CRC-32 of the TensorPiece at index `piece` of the same file. It must come later in
// the file than that piece, so that the file can be hashed in order.
struct Crc32Piece {
  std::size_t piece = 0;
};

struct Piece {
  std::uint64_t offset = 0;  // in the output file
  std::variant<LiteralPiece, TensorPiece, FilePiece, Crc32Piece> content;
};

// Pieces ascend and do not overlap; bytes between them and up to `size` are zero.
struct OutputFile {
  std::string name;  // relative to the output folder, at most one folder deep; or the sibling's file name
  std::uint64_t size = 0;
  std::vector<Piece> pieces;
  int zstd_level = 0;  // 1 to 22: the file is seekable zstd that unpacks to these bytes; 0: it is these bytes
};

// The last file is renamed into place last: put the one that makes the others reachable (an index) there.
struct Layout {
  std::vector<OutputFile> files;
  // Tensors of the model without a TensorPiece, for a FilePiece holds them in an encoding of its own (packed integers
  // of an ONNX file). The engine reads them for their digests.
  std::vector<std::size_t> encoded{};
};

}  // namespace wconv
