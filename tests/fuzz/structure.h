// Mutation of files by their structure: a grammar reads a file as a tree, the tree is changed, and the grammar writes
// it again with the lengths, counts and checksums that the change asks for. So a mutation gets past the outer layers of
// a format, which random bytes rarely do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/dtype.h"

namespace wconv::fuzz {

enum class NodeKind : std::uint8_t {
  kMark,    // `label` alone: an opcode without argument
  kNumber,  // `number`
  kText,    // `text`
  kGroup,   // `parts`
};

struct Node {
  NodeKind kind = NodeKind::kGroup;
  int label = 0;          // what the grammar knows it by; nodes of one kind and label may take each other's place
  std::uint64_t lie = 0;  // added to the length or count that the file states for it
  std::uint64_t number = 0;
  std::string text = {};
  std::vector<Node> parts = {};
};

inline Node number_node(int label, std::uint64_t number) { return {NodeKind::kNumber, label, 0, number}; }
inline Node text_node(int label, std::string_view text) { return {NodeKind::kText, label, 0, 0, std::string(text)}; }
inline Node group_node(int label) { return {NodeKind::kGroup, label}; }

struct Grammar {
  bool (*parse)(std::string_view bytes, Node& root);  // false: not such a file
  std::string (*write)(const Node& root);
  std::span<const std::string_view> words;  // that mean something in the format
  // Gives each tensor the bytes that its dtype and shape ask for, as far as they are few; null: tensors are not that
  // easily found. Without it a change of a shape ends where sizes are compared.
  void (*settle)(Node& root) = nullptr;
};

const Grammar& safetensors_grammar();
const Grammar& gguf_grammar();
const Grammar& zip_grammar();  // with pickles in its records
const Grammar& pickle_grammar();
const Grammar& onnx_grammar();

// The bytes of a tensor, or nothing where they are many or the shape is none.
std::optional<std::uint64_t> small_size(std::optional<DType> dtype, std::span<const std::uint64_t> shape);

// Little-endian, or as the groups of a varint.
std::string little_endian(std::uint64_t number, std::size_t width);
std::string varint(std::uint64_t number);

// Takes from bytes as long as there are enough: afterwards ok() tells.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  std::string_view take(std::uint64_t size);
  std::string_view take_line();  // without its '\n'
  std::uint64_t number(std::size_t width);
  std::uint64_t varint();

 private:
  std::string_view rest_;
  bool ok_ = true;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : engine_() % limit; }
  std::uint64_t extreme();  // a number at which arithmetic breaks, or near one

 private:
  std::mt19937_64 engine_;
};

// One change of the tree, or a few.
void mutate(Node& root, std::span<const std::string_view> words, Random& random);

}  // namespace wconv::fuzz
