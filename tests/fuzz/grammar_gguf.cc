// GGUF: version, metadata, tensor infos, tensors. The label of a number is its width in bytes.
#include "structure.h"

namespace wconv::fuzz {
namespace {

enum : int { kText = 16, kValues, kMetadata, kTensors, kEntry, kTensor, kDimensions, kData };

constexpr std::uint64_t kStringType = 8, kArrayType = 9, kMaxCount = 100'000;
constexpr int kMaxDepth = 20;
constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by metadata type
constexpr std::string_view kWords[] = {"general.architecture",
                                       "general.alignment",
                                       "general.file_type",
                                       "general.quantization_version",
                                       "llama",
                                       "qwen2",
                                       "llama.block_count",
                                       "llama.attention.head_count",
                                       "llama.attention.head_count_kv",
                                       "llama.embedding_length",
                                       "tokenizer.ggml.model",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.scores",
                                       "tokenizer.ggml.token_type",
                                       "tokenizer.chat_template",
                                       "{{ x.__class__ }}",
                                       "split.no",
                                       "split.count",
                                       "split.tensors.count",
                                       "token_embd.weight",
                                       "wconv.types",
                                       "",
                                       "\xff"};

bool parse_value(Cursor& cursor, std::uint64_t type, int depth, Node& node) {
  if (type == kStringType) {
    node = text_node(kText, cursor.take(cursor.number(8)));
  } else if (type == kArrayType) {
    node = group_node(kValues);
    const std::uint64_t element = cursor.number(4), count = cursor.number(8);
    if (depth == kMaxDepth || count > kMaxCount) return false;
    node.parts.push_back(number_node(4, element));
    for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
      if (!parse_value(cursor, element, depth + 1, node.parts.emplace_back())) return false;
    }
  } else if (type < std::size(kWidths)) {
    node = number_node(static_cast<int>(kWidths[type]), cursor.number(kWidths[type]));
  } else {
    return false;
  }
  return cursor.ok();
}

bool parse_entry(Cursor& cursor, Node& entry) {
  entry.parts.push_back(text_node(kText, cursor.take(cursor.number(8))));
  const std::uint64_t type = cursor.number(4);
  entry.parts.push_back(number_node(4, type));
  return parse_value(cursor, type, 0, entry.parts.emplace_back());
}

bool parse_tensor(Cursor& cursor, Node& tensor) {
  tensor.parts.push_back(text_node(kText, cursor.take(cursor.number(8))));
  Node dimensions = group_node(kDimensions);
  for (std::uint64_t left = cursor.number(4); left > 0 && cursor.ok(); --left)
    dimensions.parts.push_back(number_node(8, cursor.number(8)));
  tensor.parts.push_back(std::move(dimensions));
  tensor.parts.push_back(number_node(4, cursor.number(4)));
  tensor.parts.push_back(number_node(8, cursor.number(8)));
  return cursor.ok();
}

std::uint64_t alignment(const Node& root) {
  for (const Node& group : root.parts) {
    for (const Node& entry : group.parts) {
      if (group.label != kMetadata || entry.parts.size() != 3 || entry.parts[0].text != "general.alignment") continue;
      const std::uint64_t stated = entry.parts[2].number;
      if (stated > 0 && stated <= 4096) return stated;
    }
  }
  return 32;
}

bool parse(std::string_view bytes, Node& root) {
  Cursor cursor(bytes);
  if (cursor.take(4) != "GGUF") return false;
  const std::uint64_t version = cursor.number(4), n_tensors = cursor.number(8), n_entries = cursor.number(8);
  if (version < 2 || version > 3 || n_tensors > kMaxCount || n_entries > kMaxCount) return false;
  root = group_node(0);
  Node metadata = group_node(kMetadata), tensors = group_node(kTensors);
  for (std::uint64_t i = 0; i < n_entries; ++i) {
    if (!parse_entry(cursor, metadata.parts.emplace_back(group_node(kEntry)))) return false;
  }
  for (std::uint64_t i = 0; i < n_tensors; ++i) {
    if (!parse_tensor(cursor, tensors.parts.emplace_back(group_node(kTensor)))) return false;
  }
  root.parts = {number_node(4, version), std::move(metadata), std::move(tensors)};
  const std::uint64_t step = alignment(root), end = bytes.size() - cursor.rest().size();
  const std::uint64_t padding = (step - end % step) % step;
  root.parts.push_back(text_node(kData, cursor.rest().substr(std::min<std::uint64_t>(padding, cursor.rest().size()))));
  return true;
}

std::string content(const Node& node) {
  if (node.kind == NodeKind::kNumber) return little_endian(node.number, static_cast<std::size_t>(node.label));
  if (node.kind == NodeKind::kText) return little_endian(node.text.size() + node.lie, 8) + node.text;
  std::string bytes;
  if (node.label == kDimensions) bytes += little_endian(node.parts.size() + node.lie, 4);
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    bytes += content(node.parts[i]);
    if (i == 0 && node.label == kValues) bytes += little_endian(node.parts.size() - 1 + node.lie, 8);
  }
  return bytes;
}

std::string write(const Node& root) {
  std::string body, data;
  std::uint64_t version = 3, n_tensors = 0, n_entries = 0;
  for (const Node& part : root.parts) {
    if (part.kind == NodeKind::kNumber) version = part.number;
    if (part.label == kTensors) n_tensors += part.parts.size() + part.lie;
    if (part.label == kMetadata) n_entries += part.parts.size() + part.lie;
    if (part.kind == NodeKind::kGroup) body += content(part);
    if (part.kind == NodeKind::kText) data += part.text;
  }
  std::string bytes =
      "GGUF" + little_endian(version, 4) + little_endian(n_tensors, 8) + little_endian(n_entries, 8) + body;
  const std::uint64_t step = alignment(root);
  if (!data.empty()) bytes.resize((bytes.size() + step - 1) / step * step);
  return bytes + data;
}

void settle(Node& root) {
  const std::uint64_t step = alignment(root);
  std::uint64_t end = 0;
  for (Node& part : root.parts) {
    for (Node& tensor : part.parts) {
      if (part.label != kTensors || tensor.parts.size() != 4) continue;
      std::vector<std::uint64_t> shape;
      for (const Node& size : tensor.parts[1].parts) shape.insert(shape.begin(), size.number);
      const auto type = static_cast<std::uint32_t>(tensor.parts[2].number);
      const std::optional<std::uint64_t> size = small_size(dtype_from_ggml(type), shape);
      if (!size) continue;
      tensor.parts[3].number = end;
      end += (*size + step - 1) / step * step;
    }
    if (part.label == kData) part.text.resize(end, 'd');
  }
}

}  // namespace

const Grammar& gguf_grammar() {
  static const Grammar grammar{parse, write, kWords, settle};
  return grammar;
}

}  // namespace wconv::fuzz
