// Which part of a nested checkpoint is the model.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/pytorch/objects.h"
#include "wconv/format.h"

namespace wconv::pytorch {

// The part that is taken: a node and the dotted path to it ("" for the root).
struct Pick {
  NodeId node = kNoNode;
  std::string path;
  bool by_itself = false;          // chosen by wconv, not by --key
  std::vector<std::string> parts;  // keys in it that hold containers of tensors: nested further
};

// "optimizer_states", "lr_schedulers", "rng_state": what training needs and a model doesn't. A single tensor of that
// name is a weight, but for the state of a random number generator.
bool is_training_state(std::string_view key, bool is_tensor);

std::string join_path(std::string_view parent, std::string_view key);

// What a walk costs is bounded by the size of the pickle: containers may share what they hold.
class StepBudget {
 public:
  explicit StepBudget(const Pickle& pickle) : left_(16 * static_cast<std::uint64_t>(pickle.size()) + 1000) {}
  void spend(std::uint64_t steps);  // throws Error(kCorrupt)

 private:
  std::uint64_t left_;
};

// Answers for each node once whether there is a tensor in or below it.
class TensorSearch {
 public:
  explicit TensorSearch(const Objects& objects) : objects_(objects), budget_(objects.pickle()) {}
  bool has_tensor(NodeId id, int depth = 0);

 private:
  const Objects& objects_;
  StepBudget budget_;
  std::unordered_map<NodeId, bool> known_;
};

// Throws Error(kUsage) when options.key leads nowhere.
Pick pick_part(Objects& objects, TensorSearch& search, const ReadOptions& options);

inline constexpr int kMaxDepth = 1000;

}  // namespace wconv::pytorch
