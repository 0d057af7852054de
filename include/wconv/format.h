// File formats: a reader turns a file into a Model, a writer plans a Layout. Adding one touches its folder, its test
// folder, one line of src/formats/registry.cc, one page in docs/formats and the changelog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/file.h"
#include "wconv/layout.h"
#include "wconv/model.h"

namespace wconv {

struct ReadOptions {
  std::string key;          // path of the part to take in a nested checkpoint: "model_state_dict", "ema.model"
  bool whole_tree = false;  // every tensor of a nested checkpoint, under its dotted path (inspect)
};

// One format, read side. Stateless: one const instance serves every thread.
class FormatReader {
 public:
  virtual ~FormatReader() = default;
  virtual std::string_view name() const = 0;
  // From the first bytes (up to 4 KiB) only; never from the file's name.
  virtual bool probe(std::span<const std::byte> head) const = 0;
  // Proves all metadata; no tensor byte is read. Throws Error(kCorrupt | kUnsupported | kMissing | kIo).
  // A reader of split files opens the others beside `file`.
  virtual Model open(std::shared_ptr<const File> file, const ReadOptions& options) const = 0;
};

struct WriteOptions {
  std::string file_name;  // "out.safetensors": the last component of the output path
  bool folder = false;    // the output is a folder: file_name is empty and the format chooses (model.safetensors)
  std::uint64_t shard_size = 0;  // bytes of tensor data in one file; 0: one file
};

// One format, write side. Stateless, as FormatReader.
class FormatWriter {
 public:
  virtual ~FormatWriter() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const std::string_view> extensions() const = 0;  // ".pth", ".pt"
  // Everything about `model` that this format can't hold, one sentence each; empty: it can be planned.
  virtual std::vector<std::string> check(const Model& model, const WriteOptions& options) const = 0;
  // Exact bytes of every file. Throws Error(kUnsupported) where no file could hold them. The order of bytes depends on
  // model and options only.
  virtual Layout plan(const Model& model, const WriteOptions& options) const = 0;
};

std::span<const FormatReader* const> readers();  // in probing order
std::span<const FormatWriter* const> writers();
const FormatWriter* find_writer(std::string_view name);  // null: unknown
// "model.pth" and "model.pth.zst" alike; null: unknown.
const FormatWriter* find_writer_by_extension(std::string_view path);

// Opens what a person calls a model: a file, a folder with config.json and weights (sharded or not), an index file, or
// the first file of a split one. Files that are no model but often stand in its place (Git LFS pointers, HTML error
// pages, empty or partial downloads) are named as what they are. Files whose content is zstd are read as what they
// unpack to. Throws as FormatReader::open.
Model open_model(const std::string& path, const ReadOptions& options);
// The same for bytes, by content; used by tests and fuzzers.
Model open_file(std::shared_ptr<const File> file, const ReadOptions& options);

}  // namespace wconv
