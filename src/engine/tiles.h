// Cutting a layout into tasks of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wconv/engine.h"
#include "wconv/file.h"

namespace wconv::engine {

enum class TaskKind : std::uint8_t {
  kAssemble,    // fill output bytes [begin, end) from the pieces that meet them
  kKernelCopy,  // copy output bytes [begin, end), all of one piece, without seeing them
  kScan,        // read input bytes [begin, end), for the input's SHA-256 and the CRCs of its records
};

struct Task {
  TaskKind kind = TaskKind::kAssemble;
  std::size_t file = 0;  // index into layout.files, or into the inputs
  std::uint64_t begin = 0, end = 0;
  std::size_t piece = 0;  // first piece that ends after `begin`
  bool has_crc_slots = false;
};

// How much memory tiles take: `buffers` of `buffer_bytes` each.
struct Budget {
  unsigned threads = 1;
  std::size_t buffers = 4;
  std::uint64_t tile_bytes = 0;
  std::uint64_t buffer_bytes = 0;  // a tile, and the room to compress it into where an output is compressed
};
// `reading`: what the inputs need.
Budget plan_budget(const Layout& layout, const EngineOptions& options, const ReadMemory& reading = {});
ReadMemory read_memory(const Model& model);

// Ascending in each output file. Tensor slices begin and end at whole blocks of the tensor's dtype, but not in a
// compressed file: there each task is one frame.
std::vector<Task> output_tasks(const Model& model, const Layout& layout, bool hash, std::uint64_t tile_bytes);

// Appends scans of input bytes [begin, end).
void add_scans(std::size_t input, std::uint64_t begin, std::uint64_t end, std::uint64_t tile_bytes,
               std::vector<Task>& tasks);

// Ascending in each input: the records that carry a CRC-32.
std::vector<Task> record_scans(const Model& model, std::uint64_t tile_bytes);

// Bytes that the piece takes in its file.
std::uint64_t piece_size(const Piece& piece);

// Where the bytes of a piece lie as they are, if they do.
std::optional<FileRange> input_range(const Model& model, const Piece& piece);

// Bytes of a tensor that need not begin and end at whole blocks of its dtype.
void read_slice(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out);

// Whether the piece is large enough that no task begins before it and ends in it.
bool starts_task(const Piece& piece);

// The files that the model was read from, weights, then side files; behind one that is unpacked when it is read, the
// compressed file. Digests are those of the files on disk, CRCs those of records in the content.
std::vector<const File*> input_files(const Model& model);

}  // namespace wconv::engine
