// What the opcodes of a pickle build with: nodes, the stack with its marks, the memo. See pickle.h.
#pragma once

#include <unordered_map>

#include "formats/pytorch/pickle.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::pytorch {

class PickleBuilder {
 protected:
  PickleBuilder(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end, std::uint64_t stored_bytes)
      : reader_(file, begin, end), memory_left_(16 * 1024 * 1024 + 24 * (stored_bytes ? stored_bytes : end - begin)) {
    pickle_.file_ = std::move(file);
  }

  static constexpr NodeId kMark = kNoNode - 1;

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(opcode_at_, ErrorCode::kCorrupt, "pickle: {}", fmt::format(format, std::forward<Args>(args)...));
  }

  // --- nodes ---
  // `bytes`: what is kept, before it is allocated.
  void spend(std::uint64_t bytes) {
    if (bytes > memory_left_) refuse("builds more values than its size on disk can stand for");
    memory_left_ -= bytes;
  }
  NodeId add(NodeKind kind, std::uint64_t value) {
    if (pickle_.nodes_.size() >= kMark) refuse("holds more than {} values", kMark);
    spend(sizeof(Pickle::Node));
    pickle_.nodes_.push_back({kind, value});
    return static_cast<NodeId>(pickle_.nodes_.size() - 1);
  }
  NodeId add_blob(NodeKind kind, std::uint64_t offset, std::uint64_t size) {
    spend(sizeof(Blob));
    pickle_.blobs_.push_back({offset, size, {}, true});
    return add(kind, pickle_.blobs_.size() - 1);
  }
  NodeId add_owned(NodeKind kind, std::string text) {
    spend(sizeof(Blob) + text.size());
    pickle_.blobs_.push_back({0, text.size(), std::move(text), false});
    return add(kind, pickle_.blobs_.size() - 1);
  }
  NodeId add_list(NodeKind kind, std::vector<NodeId> items) {
    spend(sizeof(items) + items.size() * sizeof(NodeId));
    pickle_.lists_.push_back(std::move(items));
    return add(kind, pickle_.lists_.size() - 1);
  }
  NodeId add_global(std::string module, std::string name) {
    spend(sizeof(Pickle::Name) + module.size() + name.size());
    pickle_.names_.push_back({std::move(module), std::move(name), opcode_at_});
    const NodeId id = add(NodeKind::kGlobal, pickle_.names_.size() - 1);
    pickle_.globals.push_back(id);
    return id;
  }
  NodeId add_object(NodeId callable, NodeId args, Making making) {
    Object object;
    object.callable = callable;
    object.args = args;
    object.making = making;
    object.offset = opcode_at_;
    spend(sizeof(Object));
    pickle_.objects_.push_back(std::move(object));
    return add(NodeKind::kObject, pickle_.objects_.size() - 1);
  }

  // --- stack ---
  void push(NodeId id) { stack_.push_back(id); }
  NodeId pop() {
    if (stack_.empty()) refuse("takes a value from an empty stack");
    const NodeId id = stack_.back();
    stack_.pop_back();
    if (id == kMark) refuse("finds a mark where a value should be");
    return id;
  }
  NodeId top() const {
    if (stack_.empty() || stack_.back() == kMark) refuse("needs a value on the stack");
    return stack_.back();
  }
  std::vector<NodeId> pop_to_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != kMark) --mark;
    if (mark == 0) refuse("finds no mark on the stack");
    std::vector<NodeId> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  std::vector<NodeId> pop_items(std::size_t count) {
    std::vector<NodeId> items(count);
    while (count-- > 0) items[count] = pop();
    return items;
  }

  // --- containers ---
  void append_to(NodeId target, const std::vector<NodeId>& items) {
    const NodeKind kind = pickle_.kind(target);
    if (kind == NodeKind::kObject) {
      auto& list = pickle_.objects_[pickle_.nodes_[target].value].list;
      list.insert(list.end(), items.begin(), items.end());
      return;
    }
    if (kind != NodeKind::kList && kind != NodeKind::kSet) refuse("appends to something that is no list or set");
    auto& list = pickle_.lists_[pickle_.nodes_[target].value];
    list.insert(list.end(), items.begin(), items.end());
  }
  void set_items(NodeId target, const std::vector<NodeId>& pairs) {
    if (pairs.size() % 2 != 0) refuse("SETITEMS has a key without a value");
    const NodeKind kind = pickle_.kind(target);
    if (kind == NodeKind::kObject) {
      auto& list = pickle_.objects_[pickle_.nodes_[target].value].pairs;
      list.insert(list.end(), pairs.begin(), pairs.end());
      return;
    }
    if (kind != NodeKind::kDict) refuse("SETITEM on something that is no dict");
    auto& list = pickle_.lists_[pickle_.nodes_[target].value];
    list.insert(list.end(), pairs.begin(), pairs.end());
  }

  // --- memo ---
  void memo_set(std::uint64_t index) { memo_[index] = top(); }
  void memo_get(std::uint64_t index) {
    const auto known = memo_.find(index);
    if (known == memo_.end()) refuse("memo {} was never stored", index);
    push(known->second);
  }

  // --- objects ---
  void set_state(NodeId object, NodeId state) {
    if (pickle_.kind(object) != NodeKind::kObject) refuse("BUILD on something that is no object");
    pickle_.objects_[pickle_.nodes_[object].value].state = state;
  }
  void set_keywords(NodeId object, NodeId dict) {
    if (pickle_.kind(dict) == NodeKind::kDict && !pickle_.items(dict).empty())
      pickle_.objects_[pickle_.nodes_[object].value].keywords = dict;
  }

  ByteReader reader_;
  std::uint64_t memory_left_;
  std::uint64_t opcode_at_ = 0;
  Pickle pickle_;
  std::vector<NodeId> stack_;
  std::unordered_map<std::uint64_t, NodeId> memo_;
};

}  // namespace wconv::pytorch
