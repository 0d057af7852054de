// The engine executes a Layout: the only code that moves weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/descriptor.h"
#include "wconv/layout.h"
#include "wconv/model.h"

namespace wconv {

struct EngineOptions {
  unsigned threads = 0;          // 0: as many as this process may use
  std::uint64_t max_memory = 0;  // bytes for the whole program; 0: at most 96 MiB of tiles
  bool force = false;            // replace an output that exists
  bool hash = true;              // SHA-256 of every input, output and tensor
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;  // from one thread at a time
  const std::atomic<int>* interrupted = nullptr;  // nonzero: stop, leave nothing, throw Error(kInterrupted)
};

struct FileRecord {
  std::string path;  // outputs: relative to the output; inputs: as given
  std::uint64_t bytes = 0;
  std::string sha256;  // hex; empty without hashing
};
void sort_by_path(std::vector<FileRecord>& files);

struct TensorRecord {
  std::string sha256;  // of the stored little-endian bytes
  OverflowCount overflow;
};

struct EngineResult {
  std::vector<FileRecord> inputs, outputs;  // outputs: sorted by path
  std::vector<TensorRecord> tensors;        // one for each of model.tensors
};

// An output being made beside its place. The destructor removes what was not committed.
//
// `path` is a file (then layout files other than the last are its siblings) or, with `folder`, a directory that is
// complete or absent. Existing outputs need `force`; a symbolic link at `path` is replaced, never followed. Two runs on
// one output: the second gets Error(kBusy). New files have the umask's mode, replaced ones keep theirs.
class Output {
 public:
  // Throws Error(kUsage) where an output cannot have this place, as the constructor does; touches nothing.
  static void check_place(const std::string& path, bool folder, bool force);
  Output(std::string path, bool folder, bool force);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Creates `name` of `size` bytes (preallocated) and returns what this object owns.
  const Descriptor& create(const std::string& name, std::uint64_t size);
  // Creates `name` with these bytes; it is renamed before what `create` made.
  void add(const std::string& name, std::string_view text);
  // A sibling (of an output that is a file) that the new output takes the place of; commit removes it in the end.
  void replaces(const std::string& name);
  // Syncs and renames everything, in the order of create; the last one last. After it nothing is discarded.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs the layout into `output` (creates, fills; doesn't commit). Checks model.checks and that no input has changed.
EngineResult execute(const Model& model, const Layout& layout, Output& output, const EngineOptions& options);

// Bytes that `execute` will hold for tiles with these options; Error(kUsage) when max_memory is below the minimum.
std::uint64_t planned_memory(const Layout& layout, const Model& model, const EngineOptions& options);

// Reads every range of model.checks and compares its CRC-32, as `execute` does while it converts. Throws
// Error(kCorrupt) for the first damaged record of the list, Error(kInterrupted).
void check_records(const Model& model, unsigned threads, const std::atomic<int>* interrupted = nullptr);

}  // namespace wconv
