#include "wconv/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/list_text.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/tensor.h"

namespace wconv {
namespace {

constexpr std::array<std::string_view, 13> kMetaTypeNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                             "bool", "string", "array", "u64", "i64", "f64"};

}  // namespace

std::string_view meta_type_name(MetaType type) { return kMetaTypeNames[static_cast<std::size_t>(type)]; }

bool meta_type_from_name(std::string_view name, MetaType& out) {
  const auto found = std::find(kMetaTypeNames.begin(), kMetaTypeNames.end(), name);
  if (found == kMetaTypeNames.end()) return false;
  out = static_cast<MetaType>(found - kMetaTypeNames.begin());
  return true;
}

std::size_t MetaArray::size() const {
  return std::visit([](const auto& list) { return list.size(); }, values);
}

MetaValue MetaValue::string(std::string text) { return {MetaType::kString, std::move(text)}; }
MetaValue MetaValue::u32(std::uint32_t number) { return {MetaType::kU32, std::uint64_t{number}}; }
MetaValue MetaValue::u64(std::uint64_t number) { return {MetaType::kU64, number}; }
MetaValue MetaValue::i64(std::int64_t number) { return {MetaType::kI64, number}; }
MetaValue MetaValue::f64(double number) { return {MetaType::kF64, number}; }
MetaValue MetaValue::boolean(bool flag) { return {MetaType::kBool, std::uint64_t{flag}}; }

bool MetaValue::as_unsigned(std::uint64_t& out) const {
  if (const auto* number = std::get_if<std::uint64_t>(&value); number && type != MetaType::kBool) {
    out = *number;
    return true;
  }
  if (const auto* number = std::get_if<std::int64_t>(&value); number && *number >= 0) {
    out = static_cast<std::uint64_t>(*number);
    return true;
  }
  return false;
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  return entry == entries_.end() ? nullptr : &entry->second;
}

void Metadata::set(std::string_view key, MetaValue value) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  if (entry == entries_.end()) {
    entries_.emplace_back(key, std::move(value));
  } else {
    entry->second = std::move(value);
  }
}

bool Metadata::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& e) { return e.first == key; }) > 0;
}

std::string_view severity_name(Severity severity) {
  static constexpr std::array<std::string_view, 3> kNames = {"note", "warning", "danger"};
  return kNames[static_cast<std::size_t>(severity)];
}

std::ptrdiff_t find_tensor(const Model& model, std::string_view name) {
  const auto found = std::find_if(model.tensors.begin(), model.tensors.end(),
                                  [&](const Tensor& tensor) { return tensor.info.name == name; });
  return found == model.tensors.end() ? -1 : found - model.tensors.begin();
}

void check_none_refused(const Model& model, std::string_view advice) {
  if (model.refused.empty()) return;
  const RefusedTensor& first = model.refused.front();
  const std::size_t others = model.refused.size() - 1;
  throw Error(
      ErrorCode::kUnsupported,
      fmt::format("{}{}{}", first.reason, others == 0 ? "" : fmt::format(" ({} more cannot be read)", others), advice))
      .in_file(model.path)
      .in_tensor(first.name);
}

void add_metadata(Model& model, const Metadata& further, std::string_view part) {
  std::vector<std::string> differing;
  for (const auto& [key, value] : further) {
    const MetaValue* known = model.metadata.find(key);
    if (!known) {
      model.metadata.set(key, value);
    } else if (known->type != value.type || metadata_json(*known) != metadata_json(value)) {
      differing.push_back(key);
    }
  }
  if (differing.empty()) return;
  model.findings.push_back(
      {Severity::kWarning, "part-metadata",
       fmt::format("{}: its metadata has other values than the parts before it, whose are kept: {}", printable(part),
                   quoted_names(differing, 5))});
}

void check_total_bytes(const Model& model) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  std::uint64_t total = 0;
  for (const Tensor& tensor : model.tensors) {
    const std::uint64_t size = tensor.data->size_bytes();
    if (size > kMost - total)
      throw Error(ErrorCode::kUnsupported, "with it the tensors have more than 2^62 bytes, which no file holds")
          .in_tensor(tensor.info.name);
    total += size;
  }
}

void check_expansion(const Model& model) {
  constexpr std::uint64_t kAlways = std::uint64_t{64} << 30, kFactor = 16;
  std::uint64_t stored = 0;
  for (const SourceFile& file : model.files) stored += file.file->size();
  const std::uint64_t most =
      std::max(kAlways, stored > ~std::uint64_t{0} / kFactor ? ~std::uint64_t{0} : stored * kFactor);
  std::unordered_set<const TensorData*> seen;
  std::uint64_t total = 0;
  for (const Tensor& tensor : model.tensors) {
    if (!seen.insert(tensor.data.get()).second) continue;
    const std::uint64_t size = tensor.data->size_bytes();
    if (size > most - total) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("it is a view of {} bytes; with it the tensors have more than {}, though the files have {}: "
                      "their values are not read",
                      size, most, stored))
          .in_tensor(tensor.info.name)
          .in_file(model.path);
    }
    total += size;
  }
}

}  // namespace wconv
