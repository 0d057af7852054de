// Cutting a layout into tasks of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wconv/engine.h"

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

// How much memory tiles take: `buffers` of `tile_bytes` each.
struct Budget {
  unsigned threads = 1;
  std::size_t buffers = 4;
  std::uint64_t tile_bytes = 0;
};
Budget plan_budget(const Layout& layout, const EngineOptions& options);

// Ascending in each output file. Tensor slices begin and end at whole blocks of the tensor's dtype.
std::vector<Task> output_tasks(const Model& model, const Layout& layout, bool hash, std::uint64_t tile_bytes);

// Ascending in each input: all of it with `hash`, else only the records that carry a CRC.
std::vector<Task> scan_tasks(const Model& model, bool hash, std::uint64_t tile_bytes);

// Both lists in one, so that inputs are scanned about where they are copied; each keeps its order.
std::vector<Task> interleave(const std::vector<Task>& outputs, const std::vector<Task>& scans);

// The files that the model was read from: weights, then side files.
std::vector<std::shared_ptr<const File>> input_files(const Model& model);

}  // namespace wconv::engine
