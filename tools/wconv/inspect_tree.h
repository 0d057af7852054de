// Tensor names as a tree: cut at '.', layers of equal structure shown once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/model.h"

namespace wconv::tool {

struct TreeLine {
  std::size_t depth = 0;
  std::string label;               // printable: "layers.0…5"
  std::uint64_t repeated = 1;      // 6: this and all below it stands for six
  const Tensor* tensor = nullptr;  // null: a group
  std::size_t index = 0;           // of the tensor in the model
  std::uint64_t bytes = 0;         // of a group: all of it, repetitions too
};

// Sorted by name, part by part, parts that are numbers by their value.
class TensorTree {
 public:
  explicit TensorTree(const Model& model);
  void visit(const std::function<void(const TreeLine&)>& use) const;

 private:
  // The tensors order_[begin, end) share a name up to `prefix`, a position behind a dot.
  struct Range {
    std::size_t begin = 0, end = 0, prefix = 0;
  };
  // What shares one more part of the name: one tensor whose name ends with it, or a group.
  struct Item {
    Range range;
    std::string_view part;
    bool leaf = false;
  };
  std::string_view name(std::size_t i) const { return model_.tensors[order_[i]].info.name; }
  Item first_item(const Range& range) const;
  bool same_structure(const Item& a, const Item& b) const;
  std::size_t run_length(const Range& range, const Item& first, std::size_t& end, std::string_view& last_part) const;
  std::uint64_t bytes_of(std::size_t begin, std::size_t end) const;
  void visit_range(Range range, std::size_t depth, const std::function<void(const TreeLine&)>& use) const;
  void visit_item(Item item, TreeLine line, const std::function<void(const TreeLine&)>& use) const;
  void emit_leaf(std::size_t i, TreeLine line, const std::function<void(const TreeLine&)>& use) const;

  const Model& model_;
  std::vector<std::size_t> order_;
};

}  // namespace wconv::tool
