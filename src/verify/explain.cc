#include "verify/explain.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <unordered_map>

#include "core/list_text.h"
#include "core/nearest.h"
#include "wconv/error.h"

namespace wconv::verify_detail {
namespace {

constexpr std::size_t kNamesShown = 3, kHints = 5, kShapes = 10, kMaxHintNames = 20'000;

std::string names_text(const std::vector<std::string>& names) { return quoted_names(names, kNamesShown); }

std::string count_text(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string shell_quoted(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '/';
  });
  if (plain && !text.empty()) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A literal prefix as a regular expression.
std::string regex_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(.^$*+?()[]{}|\)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string explain_rule(const PrefixRule& rule, std::size_t reference_names, std::size_t candidate_names) {
  const bool in_candidate = !rule.candidate_prefix.empty();
  const std::string_view side = in_candidate ? "candidate" : "reference";
  const bool all = rule.count == (in_candidate ? candidate_names : reference_names);
  const std::string owners = all ? fmt::format("every name of the {}", side)
                                 : fmt::format("{} of the {}", count_text(rule.count, "name"), side);
  const std::string_view have = all || rule.count == 1 ? "has" : "have";
  if (rule.reference_prefix.empty()) {
    return fmt::format(
        "{} {} the prefix '{}', which the reference lacks; values were compared without it (remove it: "
        "wconv convert --strip-prefix {})",
        owners, have, rule.candidate_prefix, shell_quoted(rule.candidate_prefix));
  }
  if (!in_candidate) {
    return fmt::format(
        "{} {} the prefix '{}', which the candidate lacks; values were compared without it (add it: "
        "wconv convert --rename {})",
        owners, have, rule.reference_prefix, shell_quoted("^=" + rule.reference_prefix));
  }
  return fmt::format(
      "{} {} the prefix '{}' where the reference has '{}'; values were compared all the same (change it: "
      "wconv convert --rename {})",
      owners, have, rule.candidate_prefix, rule.reference_prefix,
      shell_quoted("^" + regex_escaped(rule.candidate_prefix) + "=" + rule.reference_prefix));
}

// Missing tensors whose data the reference keeps under another name too, which the candidate has.
void explain_ties(const Model& reference, const KeyMap& keys, std::vector<std::string>& out,
                  std::set<std::size_t>& tied) {
  if (keys.missing.empty()) return;
  std::unordered_map<const TensorData*, std::size_t> present;
  for (const auto& [r, c] : keys.pairs) present.emplace(reference.tensors[r].data.get(), r);
  for (const std::size_t m : keys.missing) {
    const auto found = present.find(reference.tensors[m].data.get());
    if (found == present.end() || reference.tensors[m].data->size_bytes() == 0) continue;
    tied.insert(m);
    if (tied.size() > kHints) continue;
    out.push_back(
        fmt::format("'{}' is tied to '{}' in the reference: it shares its values, and the candidate has those",
                    reference.tensors[m].info.name, reference.tensors[found->second].info.name));
  }
}

void explain_nearest(const Model& reference, const Model& candidate, const KeyMap& keys,
                     const std::set<std::size_t>& tied, std::vector<std::string>& out) {
  if (keys.unexpected.empty() || keys.unexpected.size() > kMaxHintNames) return;
  std::vector<std::string_view> names;
  for (const std::size_t u : keys.unexpected) names.push_back(candidate.tensors[u].info.name);
  std::size_t hints = 0, tried = 0;
  for (const std::size_t m : keys.missing) {
    if (tied.contains(m)) continue;
    const std::string& name = reference.tensors[m].info.name;
    const std::string_view nearest = nearest_name(name, names, std::max<std::size_t>(3, name.size() / 4));
    if (!nearest.empty()) {
      out.push_back(
          fmt::format("'{}' is missing in the candidate; the nearest name that it has is '{}'", name, nearest));
      if (++hints == kHints) return;
    }
    if (++tried == 4 * kHints) return;
  }
}

void explain_dtypes(const std::vector<TensorComparison>& tensors, bool keys_only, std::vector<std::string>& out) {
  struct Change {
    std::size_t count = 0, equal = 0;
  };
  std::map<std::pair<DType, DType>, Change> changes;
  for (const TensorComparison& tensor : tensors) {
    if (tensor.dtypes[0] == tensor.dtypes[1]) continue;
    Change& change = changes[{tensor.dtypes[0], tensor.dtypes[1]}];
    ++change.count;
    change.equal += tensor.status == "dtype";
  }
  for (const auto& [types, change] : changes) {
    std::string text =
        fmt::format("{} {} {} in the reference and {} in the candidate", count_text(change.count, "tensor"),
                    change.count == 1 ? "is" : "are", name(types.first), name(types.second));
    if (!keys_only && change.equal == change.count) text += "; the values are equal";
    if (!keys_only && change.equal != change.count) text += fmt::format("; the values of {} are equal", change.equal);
    out.push_back(std::move(text));
  }
}

std::string explain_shape(const TensorComparison& tensor, bool same_flat) {
  std::string text = fmt::format("'{}' is [{}] in the reference and [{}] in the candidate", tensor.name,
                                 fmt::join(tensor.shape, ", "), fmt::join(tensor.candidate_shape, ", "));
  const std::vector<std::uint64_t> reversed(tensor.shape.rbegin(), tensor.shape.rend());
  if (same_flat) {
    text += ": the same values in the same order";
  } else if (reversed == tensor.candidate_shape) {
    text += ": reversed, perhaps transposed";
  } else if (element_count(tensor.shape) == element_count(tensor.candidate_shape)) {
    text += fmt::format(": as many elements ({})", element_count(tensor.shape));
  }
  return text;
}

void explain_nonfinite(const std::vector<TensorComparison>& tensors, std::vector<std::string>& out) {
  std::size_t count = 0;
  for (const TensorComparison& tensor : tensors) {
    if (tensor.nonfinite_mismatches == 0 || ++count > kShapes) continue;
    out.push_back(fmt::format(
        "'{}' has {} where NaN or infinity stands against another value, so that no measure is finite; NaN: {} in the "
        "reference, {} in the candidate",
        tensor.name, count_text(tensor.nonfinite_mismatches, "place"), tensor.nans[0], tensor.nans[1]));
  }
  if (count > kShapes)
    out.push_back(
        fmt::format("NaN or infinity against another value in {} more", count_text(count - kShapes, "tensor")));
}

}  // namespace

std::vector<std::string> explain_keys(const Model& reference, const Model& candidate, const KeyMap& keys) {
  std::vector<std::string> out;
  for (const PrefixRule& rule : keys.rules) {
    out.push_back(explain_rule(rule, reference.tensors.size(), candidate.tensors.size()));
  }
  std::set<std::size_t> tied;
  explain_ties(reference, keys, out, tied);
  explain_nearest(reference, candidate, keys, tied, out);
  return out;
}

std::vector<std::string> explain_tensors(const std::vector<TensorComparison>& tensors,
                                         const std::vector<bool>& same_flat, bool keys_only) {
  std::vector<std::string> out, transposed, undecodable, other_bits;
  std::size_t shapes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorComparison& tensor = tensors[i];
    if (tensor.status == "transposed") transposed.push_back(tensor.name);
    if (tensor.status == "undecodable") undecodable.push_back(tensor.name);
    if (!tensor.same_bits && tensor.status == "equal") other_bits.push_back(tensor.name);
    if (tensor.status == "shape" && ++shapes <= kShapes) out.push_back(explain_shape(tensor, same_flat[i]));
  }
  if (shapes > kShapes)
    out.push_back(fmt::format("{} more have another shape", count_text(shapes - kShapes, "tensor")));
  if (!transposed.empty()) {
    out.push_back(fmt::format("{} transposed in the candidate, with the same values: {}",
                              transposed.size() == 1 ? "1 tensor is" : fmt::format("{} tensors are", transposed.size()),
                              names_text(transposed)));
  }
  explain_dtypes(tensors, keys_only, out);
  explain_nonfinite(tensors, out);
  if (!other_bits.empty()) {
    out.push_back(fmt::format("equal in value but not in every bit (the sign of a zero, or what a NaN carries): {}",
                              names_text(other_bits)));
  }
  if (!undecodable.empty()) {
    out.push_back(
        fmt::format("these values cannot be decoded, so nothing is known about them: {}", names_text(undecodable)));
  }
  return out;
}

}  // namespace wconv::verify_detail
