#include "passes/metadata_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "ir/metadata_limits.h"
#include "wconv/error.h"

namespace wconv::passes {
namespace {

[[noreturn]] void fail_value(std::string_view key, std::string_view text, std::string_view wanted) {
  fail(ErrorCode::kUsage, "the value '{}' of key '{}' is not {}", printable(text.substr(0, 60)), printable(key),
       wanted);
}

template <typename T>
T parse_number(std::string_view key, std::string_view text, std::string_view wanted) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) fail_value(key, text, wanted);
  return number;
}

std::uint64_t parse_unsigned(std::string_view key, MetaType type, std::string_view text) {
  const auto number = parse_number<std::uint64_t>(key, text, meta_allowed(type));
  if (number > meta_limits(type).most) fail_value(key, text, meta_allowed(type));
  return number;
}

std::int64_t parse_signed(std::string_view key, MetaType type, std::string_view text) {
  const auto number = parse_number<std::int64_t>(key, text, meta_allowed(type));
  const auto [least, most] = meta_limits(type);
  if (number < least || std::cmp_greater(number, most)) fail_value(key, text, meta_allowed(type));
  return number;
}

double parse_real(std::string_view key, MetaType type, std::string_view text) {
  const auto number = meta_real(type, parse_number<double>(key, text, meta_allowed(type)));
  if (!number) fail_value(key, text, meta_allowed(type) + ": out of its range");
  return *number;
}

std::uint64_t parse_bool(std::string_view key, std::string_view text) {
  if (text == "true" || text == "1") return 1;
  if (text == "false" || text == "0") return 0;
  fail_value(key, text, meta_allowed(MetaType::kBool));
}

// The text of a JSON scalar, for the parsers above.
std::string scalar_text(std::string_view key, const nlohmann::json& element) {
  if (element.is_string()) return element.get<std::string>();
  if (element.is_structured() || element.is_null()) fail_value(key, element.dump(), "a single value");
  return element.dump();
}

template <typename T, typename Parse>
std::vector<T> parse_elements(std::string_view key, const nlohmann::json& elements, const Parse& parse) {
  std::vector<T> values;
  for (const auto& element : elements) values.push_back(parse(scalar_text(key, element)));
  return values;
}

// docs/gguf.md of ggml, "Standardized key-value pairs". Keys of an architecture are not here: writers and readers use
// u32 where it says uint64.
constexpr auto kU32Keys = std::to_array<std::string_view>({
    "general.alignment",
    "general.base_model.count",
    "general.file_type",
    "general.quantization_version",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.separator_token_id",
    "tokenizer.ggml.unknown_token_id",
});
constexpr auto kStringListKeys =
    std::to_array<std::string_view>({"general.datasets", "general.languages", "general.tags"});

}  // namespace

std::optional<SpecifiedType> specified_type(std::string_view key) {
  const auto in = [key](const auto& keys) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  if (in(kU32Keys)) return SpecifiedType{MetaType::kU32, MetaType::kU32};
  if (in(kStringListKeys)) return SpecifiedType{MetaType::kArray, MetaType::kString};
  return std::nullopt;
}

MetaValue parse_value(std::string_view key, MetaType type, std::string_view text) {
  MetaValue value;
  value.type = type;
  switch (type) {
    case MetaType::kString:
      value.value = std::string(text);
      break;
    case MetaType::kBool:
      value.value = parse_bool(key, text);
      break;
    case MetaType::kF32:
    case MetaType::kF64:
      value.value = parse_real(key, type, text);
      break;
    case MetaType::kI8:
    case MetaType::kI16:
    case MetaType::kI32:
    case MetaType::kI64:
      value.value = parse_signed(key, type, text);
      break;
    case MetaType::kArray:
      fail(ErrorCode::kUsage, "key '{}': write the type of an array as array:u32", printable(key));
    default:
      value.value = parse_unsigned(key, type, text);
      break;
  }
  return value;
}

MetaValue parse_array(std::string_view key, MetaType element, std::string_view text) {
  const auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_array()) fail_value(key, text, "a JSON array");
  MetaArray array;
  array.element = element;
  switch (element) {
    case MetaType::kArray:
      fail(ErrorCode::kUsage, "key '{}': arrays within arrays cannot be set", printable(key));
    case MetaType::kString:
      for (const auto& item : json)
        if (!item.is_string()) fail_value(key, item.dump(), "a string in quotes");
      array.values = parse_elements<std::string>(key, json, [](std::string item) { return item; });
      break;
    case MetaType::kF32:
    case MetaType::kF64:
      array.values =
          parse_elements<double>(key, json, [&](const std::string& item) { return parse_real(key, element, item); });
      break;
    case MetaType::kI8:
    case MetaType::kI16:
    case MetaType::kI32:
    case MetaType::kI64:
      array.values = parse_elements<std::int64_t>(
          key, json, [&](const std::string& item) { return parse_signed(key, element, item); });
      break;
    default:
      array.values = parse_elements<std::uint64_t>(key, json, [&](const std::string& item) {
        return element == MetaType::kBool ? parse_bool(key, item) : parse_unsigned(key, element, item);
      });
      break;
  }
  MetaValue value;
  value.type = MetaType::kArray;
  value.value = std::move(array);
  return value;
}

}  // namespace wconv::passes
