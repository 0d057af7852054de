#include "formats/pytorch/tree_pick.h"

#include <algorithm>
#include <array>

#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

// Names under which people save a state_dict, in the order in which they are looked for.
constexpr auto kModelKeys = std::to_array<std::string_view>({"state_dict", "model_state_dict", "model_state", "model",
                                                             "module", "net", "network", "params", "weights",
                                                             "params_ema", "ema_state_dict", "model_ema", "ema"});

// Words of the keys of training state: "optimizer_states", "G_optimizer", "lr_scheduler", "cuda_rng_state".
constexpr auto kTrainingWords =
    std::to_array<std::string_view>({"opt", "scheduler", "schedulers", "scaler", "amp", "rng"});

// A dict whose values are weights is the state_dict; a loss or a step count beside one (a tensor without dimensions)
// does not make it one.
bool is_state_dict(Objects& objects, const std::vector<std::pair<std::string, NodeId>>& children) {
  return std::any_of(children.begin(), children.end(), [&](const auto& child) {
    if (!objects.is_tensor(child.second) || is_training_state(child.first, true)) return false;
    try {
      return !objects.tensor(child.second).front().tensor.info.shape.empty();
    } catch (const Error&) {
      return true;
    }
  });
}

Pick pick_obvious(Objects& objects, TensorSearch& search) {
  Pick pick{objects.pickle().root, "", true, {}};
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (objects.is_module(pick.node)) break;
    const auto children = objects.children(pick.node);
    pick.parts.clear();
    for (const auto& [key, child] : children) {
      if (child != pick.node && objects.is_container(child) && !is_training_state(key, false) &&
          search.has_tensor(child))
        pick.parts.push_back(key);
    }
    if (is_state_dict(objects, children)) break;
    const auto best = [&]() -> const std::pair<std::string, NodeId>* {
      for (const std::string_view key : kModelKeys) {
        for (const auto& child : children) {
          if (child.first == key && objects.is_container(child.second) && search.has_tensor(child.second))
            return &child;
        }
      }
      return nullptr;
    }();
    if (!best) break;
    pick = {best->second, join_path(pick.path, best->first), true, {}};
  }
  return pick;
}

[[noreturn]] void refuse_key(const Objects& objects, TensorSearch& search, const std::string& key, const Pick& last,
                             std::string_view rest) {
  std::string known;
  std::size_t count = 0;
  for (const auto& [name, node] : objects.children(last.node)) {
    if (!search.has_tensor(node) || ++count > 20) continue;
    known += (known.empty() ? "" : ", ") + printable(name);
  }
  if (count > 20) known += fmt::format(" and {} more", count - 20);
  fail(ErrorCode::kUsage, "--key {}: there is no '{}' in {}; tensors lie under: {}", printable(key), printable(rest),
       last.path.empty() ? "the checkpoint" : "'" + printable(last.path) + "'", known.empty() ? "nothing" : known);
}

// Keys may hold dots themselves: at each level the longest one that fits is taken.
Pick pick_key(Objects& objects, TensorSearch& search, const std::string& key) {
  Pick pick{objects.pickle().root, "", false, {}};
  for (std::string_view rest = key; !rest.empty();) {
    const auto children = objects.children(pick.node);
    const std::pair<std::string, NodeId>* best = nullptr;
    for (const auto& child : children) {
      const bool fits = rest == child.first || (rest.starts_with(child.first) && rest[child.first.size()] == '.');
      if (fits && (!best || child.first.size() > best->first.size())) best = &child;
    }
    if (!best) refuse_key(objects, search, key, pick, rest);
    rest.remove_prefix(std::min(rest.size(), best->first.size() + 1));
    pick = {best->second, join_path(pick.path, best->first), false, {}};
  }
  if (!search.has_tensor(pick.node)) fail(ErrorCode::kUsage, "--key {}: there are no tensors in it", printable(key));
  return pick;
}

}  // namespace

bool is_training_state(std::string_view key, bool is_tensor) {
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('_', begin), key.size());
    const std::string_view word = key.substr(begin, end - begin);
    const bool listed = word.starts_with("optim") ||
                        std::find(kTrainingWords.begin(), kTrainingWords.end(), word) != kTrainingWords.end();
    if (listed && (!is_tensor || word == "rng")) return true;
    begin = end + 1;
  }
  return false;
}

std::string join_path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

void StepBudget::spend(std::uint64_t steps) {
  if (steps > left_)
    fail(ErrorCode::kCorrupt, "the pickle's containers hold each other so often that it unfolds without end");
  left_ -= steps;
}

bool TensorSearch::has_tensor(NodeId id, int depth) {
  if (depth > kMaxDepth) fail(ErrorCode::kCorrupt, "the pickle is nested more than {} deep", kMaxDepth);
  if (objects_.is_tensor(id)) return true;
  if (!objects_.is_container(id)) return false;
  const auto [entry, added] = known_.try_emplace(id, false);
  if (!added) return entry->second;
  const auto children = objects_.children(id);
  budget_.spend(children.size());
  for (const auto& [key, child] : children) {
    if (has_tensor(child, depth + 1)) return known_[id] = true;
  }
  return false;
}

Pick pick_part(Objects& objects, TensorSearch& search, const ReadOptions& options) {
  return options.key.empty() ? pick_obvious(objects, search) : pick_key(objects, search, options.key);
}

}  // namespace wconv::pytorch
