#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "core/nearest.h"
#include "passes/metadata_value.h"
#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

struct Assignment {
  std::string_view key, value;
};

Assignment split_assignment(std::string_view option, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    fail(ErrorCode::kUsage, "{} '{}': expected KEY=VALUE", option, printable(text.substr(0, 80)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

struct StatedType {
  std::optional<MetaType> type, element;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// What follows the last ':' of `key` is a type, as in ":u32" or ":array:u32"; it is removed from `key`.
StatedType take_type(std::string_view& key, std::string_view text) {
  StatedType stated;
  const std::size_t colon = key.rfind(':');
  if (colon == std::string_view::npos) return stated;
  MetaType type{};
  if (!meta_type_from_name(lower(key.substr(colon + 1)), type))
    fail(ErrorCode::kUsage,
         "--set '{}': '{}' is no type; types are u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string and array:TYPE, and "
         "a new key that has a ':' is written KEY:string=VALUE",
         printable(text.substr(0, 80)), printable(key.substr(colon + 1)));
  key = key.substr(0, colon);
  if (lower(key).ends_with(":array")) {
    key.remove_suffix(std::string_view(":array").size());
    stated.element = type;
    type = MetaType::kArray;
  }
  stated.type = type;
  return stated;
}

// The key that a --set means, and the type that it states.
struct Target {
  std::string_view key;
  StatedType stated;
};

Target target_of(const Metadata& metadata, std::string_view text) {
  Target target{split_assignment("--set", text).key, {}};
  // A key that is there under its whole name wins over the reading as KEY:type.
  if (metadata.find(target.key) == nullptr) target.stated = take_type(target.key, text);
  if (target.key.empty()) fail(ErrorCode::kUsage, "--set '{}': the key is empty", printable(text.substr(0, 80)));
  return target;
}

// The order between different options is not kept, so that a key has one of them only.
void refuse_contradictions(const Metadata& metadata, const MetadataEdits& edits) {
  std::map<std::string_view, std::string_view> option_of;
  const auto note = [&](std::string_view key, std::string_view option) {
    const auto [entry, is_new] = option_of.emplace(key, option);
    if (is_new || entry->second == option) return;
    fail(ErrorCode::kUsage, "{} and {} both name the metadata key '{}'; give one of them{}", entry->second, option,
         printable(key), entry->second == "--unset" ? " (--set KEY:TYPE=VALUE changes a type)" : "");
  };
  for (const std::string& key : edits.unset) note(key, "--unset");
  for (const std::string& text : edits.set) note(target_of(metadata, text).key, "--set");
  for (const std::string& text : edits.set_file) note(split_assignment("--set-file", text).key, "--set-file");
}

bool looks_typed(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return is_number || text == "true" || text == "false" || text.starts_with('[');
}

void set_value(Model& model, std::string_view text) {
  Metadata& metadata = model.metadata;
  const std::string_view value = split_assignment("--set", text).value;
  auto [key, stated] = target_of(metadata, text);
  if (const MetaValue* old = metadata.find(key); old != nullptr && !stated.type) {
    stated.type = old->type;
    if (const auto* array = std::get_if<MetaArray>(&old->value)) stated.element = array->element;
  }
  if (const auto known = passes::specified_type(key); known && !stated.type) {
    stated.type = known->type;
    if (known->type == MetaType::kArray) stated.element = known->element;
  }
  if (!stated.type && looks_typed(value))
    model.findings.push_back(
        {Severity::kNote, "set-string",
         fmt::format("the new metadata key '{}' is a string; --set {}:TYPE={} gives it another type", printable(key),
                     printable(key), printable(value.substr(0, 60)))});
  metadata.set(key, stated.element ? passes::parse_array(key, *stated.element, value)
                                   : passes::parse_value(key, stated.type.value_or(MetaType::kString), value));
}

void set_from_file(Metadata& metadata, std::string_view text) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  const Assignment assignment = split_assignment("--set-file", text);
  const MetaValue* old = metadata.find(assignment.key);
  if (old != nullptr && old->type != MetaType::kString)
    fail(ErrorCode::kUsage, "--set-file: key '{}' is {} and not a string", printable(assignment.key),
         meta_type_name(old->type));
  const auto file = File::open(std::string(assignment.value));
  if (file->size() > kMostBytes)
    throw Error(ErrorCode::kUsage, fmt::format("{} bytes are too many for a metadata value; at most {} are taken",
                                               file->size(), kMostBytes))
        .in_file(file->path());
  std::string content(file->size(), '\0');
  file->read(0, std::as_writable_bytes(std::span(content)));
  metadata.set(assignment.key, MetaValue::string(std::move(content)));
}

void unset(Metadata& metadata, const std::string& key) {
  if (metadata.erase(key)) return;
  std::vector<std::string_view> keys;
  for (const auto& [name, value] : metadata) keys.push_back(name);
  fail(ErrorCode::kUsage, "--unset: there is no metadata key '{}'{}", printable(key), nearest_hint(key, keys));
}

}  // namespace

Model edit_metadata(Model model, const MetadataEdits& edits) {
  static constexpr std::string_view kArchitecture = "general.architecture";
  const auto architecture = [&model] {
    const MetaValue* value = model.metadata.find(kArchitecture);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string();
  };
  const std::string before = architecture();
  refuse_contradictions(model.metadata, edits);
  for (const std::string& key : edits.unset) unset(model.metadata, key);
  for (const std::string& text : edits.set) set_value(model, text);
  for (const std::string& text : edits.set_file) set_from_file(model.metadata, text);
  if (architecture() != before) model.architecture = architecture();
  return model;
}

}  // namespace wconv
