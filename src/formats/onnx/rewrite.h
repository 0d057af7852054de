// A file with parts of it replaced: what is not replaced stays byte for byte, and the lengths around it are corrected.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/graph.h"
#include "wconv/layout.h"

namespace wconv::onnx {

// What takes the place of bytes [begin, end) of the file: text, then a tensor (or none), then nothing else.
struct Edit {
  std::ptrdiff_t message = 0;  // the innermost that holds it
  std::uint64_t begin = 0, end = 0;
  std::string text;
  bool has_tensor = false;
  TensorPiece tensor;
};

class Rewrite {
 public:
  explicit Rewrite(const Graph& graph) : graph_(graph), messages_(graph.messages) {}

  const MessagePlace& message(std::ptrdiff_t index) const { return messages_[static_cast<std::size_t>(index)]; }
  // A message inside another that the graph does not know.
  std::ptrdiff_t add_message(std::ptrdiff_t parent, const Field& field);

  void replace(std::ptrdiff_t message, const Field& field, std::string text) {
    edits_.push_back({message, field.at, field.end, std::move(text), false, {}});
  }
  // Several at one place stand in the order of the calls.
  void insert(std::ptrdiff_t message, std::uint64_t at, std::string text) {
    edits_.push_back({message, at, at, std::move(text), false, {}});
  }
  void insert_tensor(std::ptrdiff_t message, std::uint64_t at, std::string head, TensorPiece tensor) {
    edits_.push_back({message, at, at, std::move(head), true, tensor});
  }

  // A tensor whose bytes lie in the file and stay as they are.
  void keep_tensor(std::ptrdiff_t message, std::uint64_t begin, TensorPiece tensor) {
    edits_.push_back({message, begin, begin + tensor.size, "", true, tensor});
  }

  // The whole file; its size is that of the pieces.
  OutputFile plan(std::string name);

 private:
  void correct_lengths();

  const Graph& graph_;
  std::vector<MessagePlace> messages_;
  std::vector<Edit> edits_;
};

}  // namespace wconv::onnx
