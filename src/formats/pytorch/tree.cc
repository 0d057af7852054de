#include "formats/pytorch/tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "formats/pytorch/tree_pick.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

constexpr std::size_t kMaxLeaves = 10'000;               // that become metadata
constexpr std::size_t kMaxName = 64 * 1024;              // bytes, of a tensor's path
constexpr std::size_t kMaxLeafBytes = 16 * 1024 * 1024;  // of their names and text
constexpr std::size_t kMaxNamed = 20;                    // in one message

class Walk {
 public:
  Walk(Objects& objects, TensorSearch& search, const ReadOptions& options, Pick pick, Model& model)
      : objects_(objects),
        search_(search),
        whole_(options.whole_tree && options.key.empty()),
        pick_(std::move(pick)),
        model_(model),
        budget_(objects.pickle()) {
    for (const auto& [key, value] : model.metadata) keys_.insert(key);
  }

  void run() {
    const NodeId root = objects_.pickle().root;
    visit(root, "", whole_ || (pick_.node == root && pick_.path.empty()), false, 0);
    if (dropped_leaves_ > 0) {
      model_.findings.push_back(
          {Severity::kWarning, "metadata-left-out",
           fmt::format("{} values besides the tensors are too many or too long to keep as metadata", dropped_leaves_)});
    }
    if (unkept_count_ > 0) {
      const std::string more = unkept_count_ > kMaxNamed ? fmt::format(" and {} more", unkept_count_ - kMaxNamed) : "";
      model_.findings.push_back(
          {Severity::kWarning, "value-left-out", fmt::format("not kept as metadata: {}{}", unkept_, more)});
    }
  }

 private:
  // `taken`: the node lies in the part that is taken. `training`: in the state of an optimizer and the like.
  void visit(NodeId id, const std::string& path, bool taken, bool training, int depth) {
    if (depth > kMaxDepth)
      fail(ErrorCode::kCorrupt, "the pickle is nested more than {} deep, or holds itself", kMaxDepth);
    budget_.spend(1);
    if (objects_.is_tensor(id)) return tensor(id, path, taken);
    if (auto value = objects_.leaf(id)) {  // a list of plain ones, too
      if (const std::string* text = value->as_string()) budget_.spend(text->size() / 256);
      return leaf(std::move(*value), path, training);
    }
    if (!objects_.is_container(id)) return unkept(id, path, training);
    if (!open_.insert(id).second) return holds_itself(path);
    children(id, path, taken, training, depth);
    open_.erase(id);
  }

  void children(NodeId id, const std::string& path, bool taken, bool training, int depth) {
    const bool module = objects_.is_module(id);
    const auto children = objects_.children(id);
    budget_.spend(children.size());
    for (const auto& [key, child] : children) {
      const std::string child_path = join_path(path, key);
      const bool picked = child == pick_.node && child_path == pick_.path;
      const bool state = training || (depth == 0 && is_training_state(key, objects_.is_tensor(child)));
      // Without a part to pick, everything is taken but the training state.
      const bool left = depth == 0 && !whole_ && pick_.by_itself && pick_.path.empty() && state;
      if (module && !search_.has_tensor(child)) continue;  // a module's own attributes say nothing about the weights
      visit(child, child_path, (taken && !left) || picked, state && !picked, depth + 1);
    }
  }

  void tensor(NodeId id, const std::string& path, bool taken) {
    if (path.size() > kMaxName)
      fail(ErrorCode::kCorrupt, "a tensor's name has {} bytes; {} are allowed", path.size(), kMaxName);
    if (!taken) {
      model_.left_out.push_back(path);
      return;
    }
    std::string name = path;
    if (id == objects_.pickle().root) name = "tensor";  // the checkpoint is one tensor
    if (!whole_ && !pick_.path.empty() && path != pick_.path) name = path.substr(pick_.path.size() + 1);
    std::vector<NamedTensor> parts;
    try {
      parts = objects_.tensor(id);
    } catch (Error& error) {
      error.in_tensor(path);
      const Pickle& pickle = objects_.pickle();
      if (pickle.kind(id) == NodeKind::kObject) error.at(pickle.object(id).offset);
      if (error.code() != ErrorCode::kUnsupported) throw;
      model_.refused.push_back({name, error.message()});
      if (whole_) {
        model_.findings.push_back(
            {Severity::kWarning, "unreadable-tensor", fmt::format("tensor '{}' {}", printable(path), error.message())});
      }
      return;
    }
    if (parts.size() > 1) {
      model_.findings.push_back(
          {Severity::kWarning, "quantized-tensor",
           fmt::format("tensor '{}' is quantized by torch: its codes are kept, with scale and zero point as "
                       "tensors of their own",
                       printable(path))});
    }
    for (NamedTensor& part : parts) {
      part.tensor.info.name = name + part.suffix;
      if (!names_.insert(part.tensor.info.name).second) {
        throw Error(ErrorCode::kUnsupported,
                    "two tensors of the checkpoint have this name, one by a key with dots and one by nested dicts; "
                    "--key takes one part of the checkpoint")
            .in_tensor(part.tensor.info.name);
      }
      model_.tensors.push_back(std::move(part.tensor));
    }
  }

  void leaf(MetaValue value, const std::string& path, bool training) {
    if ((training && !whole_) || path.empty()) return;  // inspect shows all
    const std::size_t bytes = path.size() + (value.as_string() ? value.as_string()->size() : 8);
    if (keys_.size() >= kMaxLeaves || leaf_bytes_ + bytes > kMaxLeafBytes) {
      ++dropped_leaves_;
      return;
    }
    if (!keys_.insert(path).second) return;
    leaf_bytes_ += bytes;
    model_.metadata.append(path, std::move(value));
  }

  void unkept(NodeId id, const std::string& path, bool training) {
    if (training && !whole_) return;
    if (++unkept_count_ > kMaxNamed) return;
    unkept_ += fmt::format("{}'{}' ({})", unkept_.empty() ? "" : ", ", printable(path), objects_.description(id));
  }

  void holds_itself(const std::string& path) {
    if (++holds_itself_ > kMaxNamed) return;
    model_.findings.push_back(
        {Severity::kWarning, "holds-itself", fmt::format("'{}' holds itself; it is shown once", printable(path))});
  }

  Objects& objects_;
  TensorSearch& search_;
  const bool whole_;
  const Pick pick_;
  Model& model_;
  StepBudget budget_;
  std::unordered_set<std::string> names_, keys_;
  std::unordered_set<NodeId> open_;  // containers around the node that is visited
  std::string unkept_;
  std::size_t leaf_bytes_ = 0, dropped_leaves_ = 0, unkept_count_ = 0, holds_itself_ = 0;
};

// Classes and functions that the pickle would make and call, each once, with how often.
void report_objects(const Objects& objects, Model& model) {
  std::map<std::pair<std::string, bool>, std::size_t> seen;
  const Pickle& pickle = objects.pickle();
  for (NodeId id = 0; id < pickle.size(); ++id) {
    if (pickle.kind(id) != NodeKind::kObject || objects.meaning(id).meaning != Meaning::kUnknown) continue;
    const std::string name = objects.class_name(id);
    if (!name.starts_with("__torch__.")) ++seen[{name, pickle.object(id).making == Making::kCall}];
  }
  for (const auto& [what, count] : seen) {
    const auto& [name, call] = what;
    const std::string times = count > 1 ? fmt::format(" ({} times)", count) : "";
    if (call) {
      model.findings.push_back(
          {Severity::kWarning, "unknown-call", fmt::format("a call of {}{}: not run", printable(name), times)});
    } else {
      model.findings.push_back({Severity::kNote, "unknown-object",
                                fmt::format("an object of class {}{}: not made", printable(name), times)});
    }
  }
}

// "model, ema and 3 more"
std::string listed(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size() && i < kMaxNamed; ++i) text += (i == 0 ? "" : ", ") + items[i];
  if (items.size() > kMaxNamed) text += fmt::format(" and {} more", items.size() - kMaxNamed);
  return text;
}

std::string tensors(std::size_t count) { return fmt::format("{} tensor{}", count, count == 1 ? "" : "s"); }

void report_pick(const Pick& pick, bool whole, Model& model) {
  if (!pick.by_itself || (pick.path.empty() && model.left_out.empty() && pick.parts.empty())) return;
  const std::string what = pick.path.empty() ? "everything but training state" : "'" + printable(pick.path) + "'";
  if (whole) {
    model.findings.push_back(
        {Severity::kNote, "picked-key", fmt::format("convert takes {} by itself; --key takes another part", what)});
    return;
  }
  std::map<std::string, std::size_t> left;  // by the first key that differs
  for (const std::string& name : model.left_out) ++left[name.substr(0, name.find('.'))];
  std::vector<std::string> others, parts;
  for (const auto& [key, count] : left) others.push_back(fmt::format("{} ({})", printable(key), tensors(count)));
  for (const std::string& part : pick.parts) parts.push_back(printable(part));
  std::string text = fmt::format("took {} ({})", what, tensors(model.tensors.size()));
  const bool all_in_parts = std::all_of(model.tensors.begin(), model.tensors.end(), [&](const Tensor& tensor) {
    return std::any_of(pick.parts.begin(), pick.parts.end(),
                       [&](const std::string& part) { return tensor.info.name.starts_with(part + "."); });
  });
  if (!parts.empty() && all_in_parts) text += " from the parts " + listed(parts) + ", which begin their names";
  if (!others.empty()) text += "; left out: " + listed(others);
  model.findings.push_back({Severity::kNote, "picked-key", text + "; --key takes another part"});
}

[[noreturn]] void refuse_empty(const Objects& objects, const Model& model) {
  std::set<std::string> names;
  for (const NodeId id : objects.pickle().globals) names.insert(printable(objects.pickle().global_name(id)));
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > 500) break;
    text += (text.empty() ? "; it names " : ", ") + name;
  }
  if (!model.left_out.empty())
    text += fmt::format("; it has {} of training state, which --key can take", tensors(model.left_out.size()));
  fail(ErrorCode::kUnsupported, "the pickle holds no tensors{} (nothing was run)", text);
}

}  // namespace

void read_tree(Objects& objects, const ReadOptions& options, Model& model) {
  TensorSearch search(objects);
  const NodeId root = objects.pickle().root;
  const bool empty = objects.pickle().kind(root) == NodeKind::kDict && objects.pickle().items(root).empty();
  if (empty) return;  // the state_dict of a model without weights
  if (!search.has_tensor(root)) refuse_empty(objects, model);
  const Pick pick = pick_part(objects, search, options);
  Walk(objects, search, options, pick, model).run();
  const bool whole = options.whole_tree && options.key.empty();
  if (model.tensors.empty() && model.refused.empty() && !whole) refuse_empty(objects, model);
  report_pick(pick, whole, model);
  report_objects(objects, model);
}

}  // namespace wconv::pytorch
