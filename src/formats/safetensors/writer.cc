#include <algorithm>
#include <array>
#include <numeric>

#include "core/json_text.h"
#include "core/part_name.h"
#include "formats/safetensors/header_parser.h"
#include "formats/safetensors/safetensors.h"
#include "wconv/error.h"

namespace wconv {
namespace {

// The reference writer sorts by this order of dtypes, widest alignment first (safetensors/src/tensor.rs, enum Dtype,
// from its last variant to its first), then by name; so the same tensors give the same bytes.
constexpr std::array kDtypeOrder = {
    DType::kU64,        DType::kI64,    DType::kF64,    DType::kC64,    DType::kF32, DType::kU32,
    DType::kI32,        DType::kBF16,   DType::kF16,    DType::kU16,    DType::kI16, DType::kF8E5M2Fnuz,
    DType::kF8E4M3Fnuz, DType::kF8E8M0, DType::kF8E4M3, DType::kF8E5M2, DType::kI8,  DType::kU8,
    DType::kF6E3M2,     DType::kF6E2M3, DType::kF4,     DType::kBool};

std::size_t dtype_rank(DType dtype) {
  return static_cast<std::size_t>(std::find(kDtypeOrder.begin(), kDtypeOrder.end(), dtype) - kDtypeOrder.begin());
}

std::string header_text(const Model& model, const std::vector<std::size_t>& order, const std::string& metadata) {
  std::string text = "{" + metadata;
  std::uint64_t offset = 0;
  for (const std::size_t index : order) {
    const Tensor& tensor = model.tensors[index];
    if (text.size() > 1) text += ',';
    text += json_string(tensor.info.name);
    fmt::format_to(std::back_inserter(text), R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   info(tensor.info.dtype).safetensors, fmt::join(tensor.info.shape, ","), offset,
                   offset + tensor.data->size_bytes());
    offset += tensor.data->size_bytes();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string metadata_text(const Model& model) {
  const auto entries = metadata_to_text(model.metadata);
  if (entries.empty() && !model.metadata.stated()) return "";
  std::string text = "\"__metadata__\":{";
  for (const auto& [key, value] : entries) {
    if (text.back() != '{') text += ',';
    text += json_string(key) + ":" + json_string(value);
  }
  return text + "}";
}

OutputFile plan_file(const Model& model, std::vector<std::size_t> order, std::string file_name,
                     const std::string& metadata) {
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TensorInfo &left = model.tensors[a].info, &right = model.tensors[b].info;
    const auto ranks = std::pair(dtype_rank(left.dtype), dtype_rank(right.dtype));
    return ranks.first != ranks.second ? ranks.first < ranks.second : left.name < right.name;
  });
  if (order.size() > safetensors::kMaxTensors) {
    fail(ErrorCode::kUnsupported, "the file would hold {} tensors; at most {} are read. Use --shard-size", order.size(),
         safetensors::kMaxTensors);
  }
  const std::string text = header_text(model, order, metadata);
  if (text.size() > safetensors::kMaxHeaderBytes) {
    fail(ErrorCode::kUnsupported, "the header would take {} bytes; safetensors readers allow {}. Use --shard-size",
         text.size(), safetensors::kMaxHeaderBytes);
  }
  std::vector<std::byte> header(8 + text.size());
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<std::byte>(text.size() >> (8 * i));
  std::transform(text.begin(), text.end(), header.begin() + 8, [](char c) { return static_cast<std::byte>(c); });
  OutputFile file;
  file.name = std::move(file_name);
  file.size = header.size();
  file.pieces.emplace_back().content = LiteralPiece{std::move(header)};
  for (const std::size_t index : order) {
    const std::uint64_t bytes = model.tensors[index].data->size_bytes();
    if (bytes == 0) continue;
    Piece& piece = file.pieces.emplace_back();
    piece.offset = file.size;
    piece.content = TensorPiece{.tensor = index, .size = bytes};
    file.size += bytes;
  }
  return file;
}

// Tensors in order; a new shard begins where the next one does not fit. A larger tensor has a shard of its own.
std::vector<std::vector<std::size_t>> split(const Model& model, std::uint64_t shard_size) {
  std::vector<std::vector<std::size_t>> shards(1);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const std::uint64_t size = model.tensors[i].data->size_bytes();
    if (shard_size > 0 && !shards.back().empty() && bytes + size > shard_size) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += size;
  }
  return shards;
}

OutputFile index_file(const Model& model, const std::vector<std::vector<std::size_t>>& shards,
                      const std::vector<OutputFile>& files, std::string file_name) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::uint64_t total = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    for (const std::size_t index : shards[s]) {
      entries.emplace_back(model.tensors[index].info.name, files[s].name);
      total += model.tensors[index].data->size_bytes();
    }
  }
  std::sort(entries.begin(), entries.end());
  std::string map;
  for (const auto& [tensor, file] : entries) {
    map += fmt::format("{}\n    {}: {}", map.empty() ? "" : ",", json_string(tensor), json_string(file));
  }
  const std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{{}\n  }}\n}}\n", total, map);
  OutputFile file;
  file.name = std::move(file_name);
  file.size = text.size();
  LiteralPiece literal;
  std::transform(text.begin(), text.end(), std::back_inserter(literal.bytes),
                 [](char c) { return static_cast<std::byte>(c); });
  file.pieces.emplace_back().content = std::move(literal);
  return file;
}

class Writer final : public FormatWriter {
 public:
  std::string_view name() const override { return "safetensors"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::array<std::string_view, 1> kExtensions = {".safetensors"};
    return kExtensions;
  }

  std::vector<std::string> check(const Model& model, const WriteOptions&) const override {
    std::vector<std::string> problems;
    for (const Tensor& tensor : model.tensors) {
      const DTypeInfo& type = info(tensor.info.dtype);
      if (tensor.info.name == "__metadata__")
        problems.push_back("a tensor is called '__metadata__', a reserved name; give it another with --rename");
      if (!is_utf8(tensor.info.name)) {
        problems.push_back(fmt::format("the name '{}' is not UTF-8; --rename it", printable(tensor.info.name)));
      }
      if (tensor.info.shape.size() > safetensors::kMaxRank) {
        problems.push_back(fmt::format("tensor '{}' has {} dimensions, more than the {} that are read; --exclude it",
                                       printable(tensor.info.name), tensor.info.shape.size(), safetensors::kMaxRank));
      }
      if (type.safetensors.empty()) {
        problems.push_back(
            fmt::format("tensor '{}' is {}, which safetensors cannot hold; --exclude it or cast it with "
                        "--tensor-dtype",
                        printable(tensor.info.name), type.name));
      }
    }
    for (const auto& [key, value] : model.metadata) {
      if (!is_utf8(key)) problems.push_back(fmt::format("metadata key '{}' is not UTF-8; --unset it", printable(key)));
    }
    if (model.metadata.find(kMetadataTypesKey)) problems.push_back(std::string(kMetadataTypesProblem));
    return problems;
  }

  Layout plan(const Model& model, const WriteOptions& options) const override {
    check_total_bytes(model);
    const std::string base = options.folder ? "model.safetensors" : options.file_name;
    const auto shards = split(model, options.shard_size);
    const std::string metadata = metadata_text(model);
    Layout layout;
    if (shards.size() == 1) {
      layout.files.push_back(plan_file(model, shards[0], base, metadata));
      return layout;
    }
    const std::string stem = base.substr(0, base.size() - (base.ends_with(".safetensors") ? 12 : 0));
    for (std::size_t s = 0; s < shards.size(); ++s) {
      layout.files.push_back(
          plan_file(model, shards[s], part_name(stem, s + 1, shards.size(), ".safetensors"), metadata));
    }
    layout.files.push_back(index_file(model, shards, layout.files, stem + ".safetensors.index.json"));
    return layout;
  }
};

}  // namespace

const FormatWriter& safetensors_writer() {
  static const Writer writer;
  return writer;
}

}  // namespace wconv
