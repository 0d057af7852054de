#include "inspect_tree.h"

#include <algorithm>
#include <numeric>

#include "text_table.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

// Names with more parts than this are not cut further: a hostile one may have a million.
constexpr std::size_t kMaxDepth = 32;

bool is_number(std::string_view part) {
  return !part.empty() && part.size() <= 18 &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t number_of(std::string_view part) {
  std::uint64_t number = 0;
  for (const char c : part) number = 10 * number + static_cast<std::uint64_t>(c - '0');
  return number;
}

// Numbers by their value, and before everything else.
int compare_parts(std::string_view a, std::string_view b) {
  if (is_number(a) != is_number(b)) return is_number(a) ? -1 : 1;
  if (is_number(a)) {
    const std::uint64_t x = number_of(a), y = number_of(b);
    if (x != y) return x < y ? -1 : 1;
  }
  return a.compare(b);
}

bool name_less(std::string_view a, std::string_view b) {
  // The part in which they first differ decides; what is equal before it need not be cut.
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto at = static_cast<std::size_t>(differ.first - a.begin());
  const std::size_t dot = at == 0 ? std::string_view::npos : a.rfind('.', at - 1);
  const std::size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
  const auto part = [&](std::string_view name) { return name.substr(begin, name.find('.', begin) - begin); };
  const int order = compare_parts(part(a), part(b));
  return order != 0 ? order < 0 : a.size() < b.size();
}

}  // namespace

TensorTree::TensorTree(const Model& model) : model_(model), order_(model.tensors.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return name_less(model.tensors[a].info.name, model.tensors[b].info.name);
  });
}

void TensorTree::visit(const std::function<void(const TreeLine&)>& use) const {
  visit_range({0, order_.size(), 0}, 0, use);
}

TensorTree::Item TensorTree::first_item(const Range& range) const {
  const std::string_view first = name(range.begin);
  const std::size_t dot = first.find('.', range.prefix);
  Item item;
  if (dot == std::string_view::npos) {
    item.leaf = true;
    item.part = first.substr(range.prefix);
    item.range = {range.begin, range.begin + 1, first.size()};
    return item;
  }
  item.part = first.substr(range.prefix, dot - range.prefix);
  const std::string_view with_dot = first.substr(range.prefix, dot + 1 - range.prefix);
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(range.begin);
  const auto end =
      std::partition_point(begin, order_.begin() + static_cast<std::ptrdiff_t>(range.end), [&](std::size_t i) {
        return std::string_view(model_.tensors[i].info.name).substr(range.prefix, with_dot.size()) == with_dot;
      });
  item.range = {range.begin, static_cast<std::size_t>(end - order_.begin()), dot + 1};
  return item;
}

bool TensorTree::same_structure(const Item& a, const Item& b) const {
  const std::size_t count = a.range.end - a.range.begin;
  if (a.leaf != b.leaf || count != b.range.end - b.range.begin) return false;
  for (std::size_t k = 0; k < count; ++k) {
    const TensorInfo& x = model_.tensors[order_[a.range.begin + k]].info;
    const TensorInfo& y = model_.tensors[order_[b.range.begin + k]].info;
    if (x.dtype != y.dtype || x.shape != y.shape) return false;
    if (std::string_view(x.name).substr(a.range.prefix) != std::string_view(y.name).substr(b.range.prefix))
      return false;
  }
  return true;
}

// How many items from `first` on are numbered one after another and have one structure; `end` is behind the last.
std::size_t TensorTree::run_length(const Range& range, const Item& first, std::size_t& end,
                                   std::string_view& last_part) const {
  std::size_t count = 1;
  end = first.range.end;
  last_part = first.part;
  if (!is_number(first.part)) return count;
  while (end < range.end) {
    const Item next = first_item({end, range.end, range.prefix});
    if (!is_number(next.part) || number_of(next.part) != number_of(last_part) + 1 || !same_structure(first, next))
      break;
    end = next.range.end;
    last_part = next.part;
    ++count;
  }
  return count;
}

std::uint64_t TensorTree::bytes_of(std::size_t begin, std::size_t end) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) bytes += model_.tensors[order_[i]].data->size_bytes();
  return bytes;
}

void TensorTree::visit_range(Range range, std::size_t depth, const std::function<void(const TreeLine&)>& use) const {
  while (range.begin < range.end) {
    const Item item = first_item(range);
    std::size_t end = 0;
    std::string_view last_part;
    TreeLine line;
    line.depth = depth;
    line.repeated = run_length(range, item, end, last_part);
    line.label = printable(item.part);
    if (line.repeated > 1) line.label += "…" + std::string(last_part);
    line.bytes = bytes_of(range.begin, end);
    range.begin = end;
    visit_item(item, std::move(line), use);
  }
}

// Goes down while there is only one way to go, then prints what is there.
void TensorTree::visit_item(Item item, TreeLine line, const std::function<void(const TreeLine&)>& use) const {
  for (std::size_t cuts = 0; !item.leaf && item.range.end - item.range.begin > 1 && cuts < kMaxDepth; ++cuts) {
    const Item next = first_item(item.range);
    std::size_t end = 0;
    std::string_view last_part;
    const std::size_t repeated = run_length(item.range, next, end, last_part);
    if (end != item.range.end) break;
    line.repeated *= repeated;
    line.label += "." + printable(next.part);
    if (repeated > 1) line.label += "…" + std::string(last_part);
    item = next;
  }
  if (item.range.end - item.range.begin == 1) {
    if (!item.leaf) line.label += "." + printable(name(item.range.begin).substr(item.range.prefix));
    return emit_leaf(item.range.begin, std::move(line), use);
  }
  use(line);
  if (line.depth + 1 < kMaxDepth) return visit_range(item.range, line.depth + 1, use);
  for (std::size_t i = item.range.begin; i < item.range.end; ++i) {
    TreeLine flat;
    flat.depth = line.depth + 1;
    flat.label = printable(name(i).substr(item.range.prefix));
    emit_leaf(i, std::move(flat), use);
  }
}

void TensorTree::emit_leaf(std::size_t i, TreeLine line, const std::function<void(const TreeLine&)>& use) const {
  line.index = order_[i];
  line.tensor = &model_.tensors[line.index];
  line.bytes = line.tensor->data->size_bytes();
  use(line);
}

}  // namespace wconv::tool
