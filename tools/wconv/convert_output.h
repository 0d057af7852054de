// What `wconv convert` prints.
#pragma once

#include <string>
#include <vector>

#include "tool.h"

namespace wconv::tool {

struct ConvertSummary {
  std::size_t tensors = 0;
  std::vector<std::string> skipped, warnings;
  double seconds = 0;
  std::string output_prefix;  // of the paths of the output's files
};

// For --dry-run: the files with their exact sizes (compressed ones: at most), and the memory that the engine will hold
// for weights.
void print_plan(const Globals& globals, const ConvertSummary& summary, const Layout& layout, const Model& model,
                std::uint64_t memory_bytes);
void print_result(const Globals& globals, const ConvertSummary& summary, const EngineResult& result);

}  // namespace wconv::tool
