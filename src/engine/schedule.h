// The order of all tasks of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/tiles.h"

namespace wconv::engine {

constexpr std::size_t kNoInput = ~std::size_t{0};

struct Schedule {
  std::vector<Task> tasks;
  // For each piece of each output file: the input whose digest takes its bytes from the copy of this piece, or
  // kNoInput.
  std::vector<std::vector<std::size_t>> feeds;
};

// Every byte of an input is read once where that can be: large pieces that are copied in the order in which they lie in
// their input feed its digest, and scans read the rest. Each output file, each input and each tensor is fed in
// ascending order of the tasks, so a thread that holds a buffer while it waits for its turn cannot stall the others.
Schedule plan_schedule(const Model& model, const Layout& layout, bool hash, std::uint64_t tile_bytes);

}  // namespace wconv::engine
