#include <charconv>
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

// ":u32" or ":array:u32" at the end of the key, removed from it; empty when there is none.
struct StatedType {
  std::optional<MetaType> type, element;
};

StatedType take_type(std::string_view& key) {
  StatedType stated;
  const std::size_t colon = key.rfind(':');
  MetaType type{};
  if (colon == std::string_view::npos || !meta_type_from_name(key.substr(colon + 1), type)) return stated;
  key = key.substr(0, colon);
  if (key.ends_with(":array")) {
    key.remove_suffix(std::string_view(":array").size());
    stated.element = type;
    type = MetaType::kArray;
  }
  stated.type = type;
  return stated;
}

bool looks_typed(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return is_number || text == "true" || text == "false" || text.starts_with('[');
}

void set_value(Model& model, std::string_view text) {
  Metadata& metadata = model.metadata;
  const Assignment assignment = split_assignment("--set", text);
  std::string_view key = assignment.key;
  // A key that is there under its whole name wins over the reading as KEY:type.
  StatedType stated = metadata.find(key) != nullptr ? StatedType{} : take_type(key);
  if (key.empty()) fail(ErrorCode::kUsage, "--set '{}': the key is empty", printable(text.substr(0, 80)));
  if (const MetaValue* old = metadata.find(key); old != nullptr && !stated.type) {
    stated.type = old->type;
    if (const auto* array = std::get_if<MetaArray>(&old->value)) stated.element = array->element;
  }
  if (!stated.type && looks_typed(assignment.value))
    model.findings.push_back(
        {Severity::kNote, "set-string",
         fmt::format("the new metadata key '{}' is a string; --set {}:TYPE={} gives it another type", printable(key),
                     printable(key), printable(assignment.value.substr(0, 60)))});
  metadata.set(key, stated.element
                        ? passes::parse_array(key, *stated.element, assignment.value)
                        : passes::parse_value(key, stated.type.value_or(MetaType::kString), assignment.value));
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
  for (const std::string& key : edits.unset) unset(model.metadata, key);
  for (const std::string& text : edits.set) set_value(model, text);
  for (const std::string& text : edits.set_file) set_from_file(model.metadata, text);
  if (architecture() != before) model.architecture = architecture();
  return model;
}

}  // namespace wconv
