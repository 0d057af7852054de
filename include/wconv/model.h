// The model as it passes from reader to writer: lazy tensors, typed metadata, findings, side files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "wconv/tensor.h"

namespace wconv {

// Types of metadata values; the numbers are GGUF's (gguf_metadata_value_type).
enum class MetaType : std::uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
std::string_view meta_type_name(MetaType type);  // "u32", "string", "array"
bool meta_type_from_name(std::string_view name, MetaType& out);

struct MetaValue;

// `values` holds the alternative that `element` says: unsigned and bool in uint64, signed in int64, floats in
// double, strings, or nested arrays.
struct MetaArray {
  MetaType element = MetaType::kU8;
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>,
               std::vector<MetaArray>>
      values;
  std::size_t size() const;
};

// Unsigned and bool in uint64_t, signed in int64_t, F32 and F64 in double. Strings are bytes; not always UTF-8.
struct MetaValue {
  MetaType type = MetaType::kString;
  std::variant<std::uint64_t, std::int64_t, double, std::string, MetaArray> value;

  static MetaValue string(std::string text);
  static MetaValue u32(std::uint32_t number);
  static MetaValue u64(std::uint64_t number);
  static MetaValue i64(std::int64_t number);
  static MetaValue f64(double number);
  static MetaValue boolean(bool flag);
  const std::string* as_string() const { return std::get_if<std::string>(&value); }
  bool as_unsigned(std::uint64_t& out) const;  // any non-negative integer type
};

// Ordered as in the source; keys are unique.
class Metadata {
 public:
  using Entry = std::pair<std::string, MetaValue>;
  const MetaValue* find(std::string_view key) const;
  void set(std::string_view key, MetaValue value);  // replaces in place, else appends
  void append(std::string key, MetaValue value) { entries_.emplace_back(std::move(key), std::move(value)); }
  bool erase(std::string_view key);
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  // The source has a place for metadata and nothing in it: {} and not nothing, which safetensors keeps apart.
  void set_stated() { stated_ = true; }
  bool stated() const { return stated_; }

 private:
  std::vector<Entry> entries_;
  bool stated_ = false;
};

// Metadata for containers that hold only text (safetensors, .pth): strings stay as they are, other values become
// JSON text, and one more entry, "wconv.types", remembers their types. The two functions are each other's inverse.
// Strings that aren't UTF-8 are kept as JSON arrays of bytes.
std::vector<std::pair<std::string, std::string>> metadata_to_text(const Metadata& metadata);
Metadata metadata_from_text(const std::vector<std::pair<std::string, std::string>>& text);
inline constexpr std::string_view kMetadataTypesKey = "wconv.types";
inline constexpr std::string_view kMetadataTypesProblem =  // of a model that has metadata under this key
    "the metadata key 'wconv.types' is wconv's own; --unset it";
// JSON text of one value: integers exact, non-finite floats as strings, bytes that are not UTF-8 replaced.
std::string metadata_json(const MetaValue& value);

enum class Severity { kNote, kWarning, kDanger };
std::string_view severity_name(Severity severity);

// Something a person should know that doesn't stop the work. `code` is stable: "stale-index".
struct Finding {
  Severity severity;
  std::string code;
  std::string message;
};

struct SourceFile {
  std::string path;         // as the user gave it, or joined to the folder the user gave
  std::uint64_t bytes = 0;  // on disk
  std::shared_ptr<const File> file;
};

// A file beside the weights that belongs to the model: config.json, tokenizer.json, …
struct SideFile {
  std::string name;  // within the model's folder: "config.json", "1_Pooling/config.json"
  std::shared_ptr<const File> file;
};

// A range of a source file that carries its own CRC-32 (a zip record). The engine and verify check it whenever
// they read weights.
struct RecordCheck {
  FileRange range;
  std::uint32_t crc32 = 0;
  std::string record;  // its name, for the message
};

// A tensor that a file holds in a way that cannot be read: sparse, meta, sharded.
struct RefusedTensor {
  std::string name;
  std::string reason;  // "is a sparse tensor"
};

// What a reader keeps for the writer of its own format beyond tensors and metadata: the graph of an ONNX file around
// its weights. Only the format itself knows what it is.
class SourceGraph {
 public:
  virtual ~SourceGraph() = default;
};

struct Model {
  std::string format;        // reader's name: "safetensors"
  std::string path;          // as the user gave it
  std::string architecture;  // "qwen2"; empty when unknown
  std::vector<SourceFile> files;
  std::vector<Tensor> tensors;  // in the source's order; names are unique
  Metadata metadata;
  std::vector<Finding> findings;
  std::vector<SideFile> side_files;
  std::vector<RecordCheck> checks;       // of records that tensors lie in
  std::vector<RecordCheck> idle_checks;  // of all others: only a check of the whole model reads them
  // Tensors of the file that were not taken: outside the part that was asked for (ReadOptions::key), or of strings.
  std::vector<std::string> left_out;
  std::vector<RefusedTensor> refused;
  std::shared_ptr<const SourceGraph> graph;  // null: the source has none
};

// Adds what a further part of the model, the file `part`, has as metadata. Where a key has another value already, that
// one stays, and a warning names it ("part-metadata").
void add_metadata(Model& model, const Metadata& further, std::string_view part);
// Index of the tensor with that name, or -1.
std::ptrdiff_t find_tensor(const Model& model, std::string_view name);
// Throws Error(kUnsupported) for the first of model.refused; `advice` ends the message.
void check_none_refused(const Model& model, std::string_view advice = {});
// Throws Error(kUnsupported) where the tensors, tied ones counted again, have more than 2^62 bytes together: offsets of
// an output then fit 64 bits. A view that repeats one number may say any size.
void check_total_bytes(const Model& model);
// Throws Error(kUnsupported) where reading the values of all tensors, tied ones once, means more than 64 GiB and more
// than 16 times the bytes of the model's files: views of a few numbers, which would keep a reader busy for days.
void check_expansion(const Model& model);

}  // namespace wconv
