// Containers and attributes. Tensors are in tensors.cc, numpy's arrays in arrays.cc, leaves in leaves.cc.
#include "formats/pytorch/objects.h"

#include <algorithm>
#include <set>

#include "wconv/error.h"

namespace wconv::pytorch {

GlobalInfo Objects::global_meaning(NodeId global) const {
  if (pickle_.kind(global) != NodeKind::kGlobal) return {};
  const auto [entry, added] = meanings_.try_emplace(global);
  if (added) entry->second = lookup_global(pickle_.global_name(global));
  return entry->second;
}

GlobalInfo Objects::meaning(NodeId id) const {
  if (pickle_.kind(id) != NodeKind::kObject) return {};
  return global_meaning(pickle_.object(id).callable);
}

std::string Objects::class_name(NodeId id) const {
  std::string calls;
  for (int depth = 0; depth < 16; ++depth) {
    const Object& object = pickle_.object(id);
    NodeId callable = object.callable;
    if (meaning(id).meaning == Meaning::kReconstructor && pickle_.kind(object.args) == NodeKind::kTuple &&
        !pickle_.items(object.args).empty()) {
      callable = pickle_.items(object.args)[0];
    }
    if (pickle_.kind(callable) == NodeKind::kPersistent) {  // ('module', class, source file, source), before torch 1.6
      const NodeId parts = pickle_.items(callable)[0];
      if (pickle_.kind(parts) == NodeKind::kTuple && pickle_.items(parts).size() > 1)
        callable = pickle_.items(parts)[1];
    }
    if (pickle_.kind(callable) == NodeKind::kGlobal) return pickle_.global_name(callable) + calls;
    if (pickle_.kind(callable) != NodeKind::kObject) break;
    calls += "()";
    id = callable;
  }
  return "something that is no class";
}

const std::vector<NodeId>& Objects::call_args(NodeId id, std::size_t least) const {
  const Object& object = pickle_.object(id);
  static const std::vector<NodeId> kNone;
  const auto& args = pickle_.kind(object.args) == NodeKind::kTuple ? pickle_.items(object.args) : kNone;
  if (args.size() < least) {
    fail(ErrorCode::kCorrupt, "{} has {} arguments; it takes at least {}", class_name(id), args.size(), least);
  }
  return args;
}

// Key-value pairs of a dict or of an object that is one.
const std::vector<NodeId>* Objects::pairs_of(NodeId id) const {
  if (pickle_.kind(id) == NodeKind::kDict) return &pickle_.items(id);
  if (meaning(id).meaning == Meaning::kDict) return &pickle_.object(id).pairs;
  return nullptr;
}

// Attributes: the state is a dict, or (dict, slots).
const std::vector<NodeId>* Objects::state_pairs(NodeId id) const {
  if (pickle_.kind(id) != NodeKind::kObject) return nullptr;
  NodeId state = pickle_.object(id).state;
  if (state != kNoNode && pickle_.kind(state) == NodeKind::kTuple && !pickle_.items(state).empty()) {
    state = pickle_.items(state)[0];
  }
  return state == kNoNode ? nullptr : pairs_of(state);
}

NodeId Objects::find_key(const std::vector<NodeId>& pairs, std::string_view key) const {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pickle_.kind(pairs[i]) == NodeKind::kText && pickle_.blob(pairs[i]).size == key.size() &&
        pickle_.text(pairs[i]) == key) {
      return pairs[i + 1];
    }
  }
  return kNoNode;
}

std::string Objects::key_text(NodeId id) const {
  switch (pickle_.kind(id)) {
    case NodeKind::kText:
      return pickle_.text(id);
    case NodeKind::kBool:
      return pickle_.integer(id) ? "True" : "False";
    case NodeKind::kNone:
      return "None";
    default:
      break;
  }
  if (const auto json = scalar_json(id)) return *json;
  if (pickle_.kind(id) == NodeKind::kTuple || pickle_.kind(id) == NodeKind::kList) {
    std::string text;
    for (const NodeId item : pickle_.items(id)) {
      if (pickle_.kind(item) == NodeKind::kTuple || pickle_.kind(item) == NodeKind::kList) {
        fail(ErrorCode::kUnsupported, "a dict has nested tuples as keys");
      }
      text += (text.empty() ? "" : ",") + key_text(item);
    }
    return "(" + text + ")";
  }
  return pickle_.kind(id) == NodeKind::kObject ? class_name(id) : "key";
}

std::vector<std::pair<std::string, NodeId>> Objects::entries(const std::vector<NodeId>& pairs) const {
  std::vector<std::pair<std::string, NodeId>> out;
  out.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) out.emplace_back(key_text(pairs[i]), pairs[i + 1]);
  return out;
}

std::optional<std::vector<std::pair<std::string, NodeId>>> Objects::module_children(NodeId id) const {
  const auto* state = state_pairs(id);
  if (!state) return std::nullopt;
  const NodeId parameters = find_key(*state, "_parameters"), modules = find_key(*state, "_modules");
  if (parameters == kNoNode || modules == kNoNode || !pairs_of(parameters) || !pairs_of(modules)) return std::nullopt;
  std::set<std::string> transient;
  if (const NodeId set = find_key(*state, "_non_persistent_buffers_set"); set != kNoNode) {
    for (const NodeId item : sequence_items(set)) {
      if (pickle_.kind(item) == NodeKind::kText) transient.insert(pickle_.text(item));
    }
  }
  auto out = entries(*pairs_of(parameters));
  const NodeId buffers = find_key(*state, "_buffers");
  if (buffers != kNoNode && pairs_of(buffers)) {
    for (auto& entry : entries(*pairs_of(buffers))) {
      if (!transient.contains(entry.first)) out.push_back(std::move(entry));
    }
  }
  for (auto& entry : entries(*pairs_of(modules))) out.push_back(std::move(entry));
  return out;
}

bool Objects::is_module(NodeId id) const {
  if (pickle_.kind(id) != NodeKind::kObject) return false;
  return module_children(id).has_value() || class_name(id).starts_with("__torch__.");
}

bool Objects::is_container(NodeId id) const {
  switch (pickle_.kind(id)) {
    case NodeKind::kList:
    case NodeKind::kTuple:
    case NodeKind::kSet:
    case NodeKind::kDict:
      return true;
    case NodeKind::kObject:
      break;
    default:
      return false;
  }
  switch (meaning(id).meaning) {
    case Meaning::kUnknown:
    case Meaning::kSize:
    case Meaning::kDict:
    case Meaning::kList:
    case Meaning::kTuple:
    case Meaning::kSet:
    case Meaning::kTypeTag:
    case Meaning::kReconstructor:
    case Meaning::kTextLike:
      return true;
    default:
      return false;
  }
}

// What a list, tuple or set holds: a literal one, or list([...]) with what was appended to it. Empty for the rest.
std::vector<NodeId> Objects::sequence_items(NodeId id) const {
  const auto literal = [&](NodeId node) {
    const NodeKind kind = pickle_.kind(node);
    return kind == NodeKind::kList || kind == NodeKind::kTuple || kind == NodeKind::kSet;
  };
  if (literal(id)) return pickle_.items(id);
  const Meaning what = meaning(id).meaning;
  if (what != Meaning::kList && what != Meaning::kTuple && what != Meaning::kSet && what != Meaning::kSize) return {};
  const auto& args = call_args(id, 0);
  std::vector<NodeId> items;
  if (!args.empty() && literal(args[0])) items = pickle_.items(args[0]);
  const auto& appended = pickle_.object(id).list;
  items.insert(items.end(), appended.begin(), appended.end());
  return items;
}

std::vector<std::pair<std::string, NodeId>> Objects::children(NodeId id) const {
  std::vector<std::pair<std::string, NodeId>> out;
  const auto add_list = [&](const std::vector<NodeId>& items, std::string_view prefix = "") {
    for (std::size_t i = 0; i < items.size(); ++i) out.emplace_back(fmt::format("{}{}", prefix, i), items[i]);
  };
  if (pickle_.kind(id) == NodeKind::kDict) return entries(pickle_.items(id));
  add_list(sequence_items(id));
  if (pickle_.kind(id) != NodeKind::kObject) return out;
  if (auto module = module_children(id)) return std::move(*module);
  const Object& object = pickle_.object(id);
  const Meaning what = meaning(id).meaning;
  const auto& args = call_args(id, 0);
  if (what == Meaning::kTypeTag)
    return args.empty() || pickle_.kind(args[0]) == NodeKind::kObject ? out : children(args[0]);
  if (what == Meaning::kDict) {  // attributes of a dict, such as a state_dict's _metadata, are not its contents
    for (const NodeId arg : args) {
      if (pairs_of(arg)) out = entries(*pairs_of(arg));
      if (pickle_.kind(arg) != NodeKind::kList) continue;
      for (const NodeId pair : pickle_.items(arg)) {
        const bool two = pickle_.kind(pair) == NodeKind::kTuple || pickle_.kind(pair) == NodeKind::kList;
        if (two && pickle_.items(pair).size() == 2)
          out.emplace_back(key_text(pickle_.items(pair)[0]), pickle_.items(pair)[1]);
      }
    }
  } else if (what == Meaning::kReconstructor && args.size() > 2 && pairs_of(args[2])) {
    out = entries(*pairs_of(args[2]));  // of a dict's own class: (class, dict, contents)
  } else if (what == Meaning::kUnknown) {
    add_list(args, "args.");
  }
  if (object.keywords != kNoNode)
    for (auto& entry : entries(pickle_.items(object.keywords))) out.push_back(std::move(entry));
  for (auto& entry : entries(object.pairs)) out.push_back(std::move(entry));
  if (what == Meaning::kUnknown) add_list(object.list);
  if (what == Meaning::kDict) return out;
  if (const auto* state = state_pairs(id)) {
    for (auto& entry : entries(*state)) out.push_back(std::move(entry));
  } else if (object.state != kNoNode) {
    out.emplace_back("state", object.state);
  }
  return out;
}

}  // namespace wconv::pytorch
