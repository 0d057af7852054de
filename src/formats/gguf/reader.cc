#include <cstring>
#include <span>
#include <utility>

#include "formats/gguf/gguf.h"
#include "formats/gguf/header.h"
#include "formats/gguf/layout.h"
#include "formats/gguf/split.h"
#include "wconv/error.h"

namespace wconv {
namespace gguf {
namespace {

std::shared_ptr<const TensorData> tensor_data(const Header& header, const TensorEntry& entry) {
  const std::uint64_t begin = header.data_begin + entry.offset;
  auto data = file_tensor(header.file, entry.size == 0 ? 0 : begin, entry.size);
  const DTypeInfo& dtype = info(entry.info.dtype);
  if (!header.big_endian || (dtype.whole_bytes() && dtype.block_bytes == 1)) return data;
  if (dtype.kind == DTypeKind::kBlock)
    fail(ErrorCode::kUnsupported,
         "it is {} in a big-endian file; such a file becomes little-endian with gguf-convert-endian of the Python "
         "package gguf",
         dtype.name);
  return swapped_tensor(std::move(data), dtype.block_bytes);
}

void add_tensors(Header& header, Model& model) {
  const std::string& path = header.file->path();
  for (; !header.tensors.empty(); header.tensors.pop_front()) {
    TensorEntry& entry = header.tensors.front();
    Tensor tensor;
    try {
      tensor.data = tensor_data(header, entry);
    } catch (Error& error) {
      error.in_file(path).in_tensor(entry.info.name).at(entry.position);
      throw;
    }
    tensor.source_file = header.file;
    tensor.source_offset = header.data_begin + entry.offset;
    tensor.source_dtype = entry.info.dtype;
    tensor.info = std::move(entry.info);
    model.tensors.push_back(std::move(tensor));
  }
  model.files.push_back({path, header.file->size(), header.file});
}

// Without what split models have only because they are split.
Metadata without_split(Metadata metadata) {
  for (std::string_view key : {kSplitNoKey, kSplitCountKey, kSplitTensorsKey}) metadata.erase(key);
  return metadata;
}

Model make_model(std::vector<Header> parts, std::string path) {
  Model model;
  model.format = "gguf";
  model.path = std::move(path);
  model.metadata = std::move(parts.front().metadata);
  for (Header& part : std::span(parts).subspan(1)) add_metadata(model, without_split(part.metadata), part.file->path());
  model.metadata = without_split(std::move(model.metadata));
  if (const MetaValue* value = model.metadata.find(kArchitectureKey); value != nullptr && value->as_string() != nullptr)
    model.architecture = *value->as_string();
  std::size_t total = 0;
  for (const Header& part : parts) total += part.tensors.size();
  model.tensors.reserve(total);
  for (Header& part : parts) {
    for (Finding& finding : part.findings) {
      if (parts.size() > 1) finding.message = part.file->path() + ": " + finding.message;
      model.findings.push_back(std::move(finding));
    }
    add_tensors(part, model);
  }
  FindingList findings;
  check_metadata(model.metadata, findings);
  for (Finding& finding : findings.take()) model.findings.push_back(std::move(finding));
  return model;
}

class Reader final : public FormatReader {
 public:
  std::string_view name() const override { return "gguf"; }
  bool probe(std::span<const std::byte> head) const override {
    return head.size() >= kMagic.size() && std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
  }
  Model open(std::shared_ptr<const File> file, const ReadOptions& options) const override {
    if (!options.key.empty())
      throw Error(ErrorCode::kUsage, "a GGUF file has no parts to choose from: --key does not apply")
          .in_file(file->path());
    std::string path = file->path();
    return make_model(open_parts(read_header(std::move(file))), std::move(path));
  }
};

}  // namespace
}  // namespace gguf

const FormatReader& gguf_reader() {
  static const gguf::Reader reader;
  return reader;
}

}  // namespace wconv
