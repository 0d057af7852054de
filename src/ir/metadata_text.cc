// Typed metadata as text, for containers that hold only strings.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "wconv/error.h"
#include "wconv/model.h"

namespace wconv {
namespace {

using nlohmann::ordered_json;
using Types = nlohmann::json;  // looked up by key

constexpr std::size_t kMaxDepth = 16;  // of nested arrays, as in GGUF files
constexpr std::string_view kTypesKey = kMetadataTypesKey;

bool is_float(MetaType type) { return type == MetaType::kF32 || type == MetaType::kF64; }

ordered_json float_json(MetaType type, double number) {
  if (std::isnan(number)) return std::signbit(number) ? "-nan" : "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  // The shortest digits that give this binary32 again: 0.1, not 0.10000000149011612.
  if (type == MetaType::kF32) return std::strtod(fmt::format("{}", static_cast<float>(number)).c_str(), nullptr);
  return number;
}

ordered_json string_json(const std::string& text) {
  if (is_utf8(text)) return text;
  ordered_json bytes = ordered_json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

ordered_json array_json(const MetaArray& array);

ordered_json value_json(const MetaValue& value) {
  if (const auto* array = std::get_if<MetaArray>(&value.value)) return array_json(*array);
  if (const auto* text = std::get_if<std::string>(&value.value)) return string_json(*text);
  if (const auto* number = std::get_if<double>(&value.value)) return float_json(value.type, *number);
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) return *number;
  const auto number = std::get<std::uint64_t>(value.value);
  // GGUF has booleans that are neither 0 nor 1; they stay numbers.
  if (value.type == MetaType::kBool && number <= 1) return number == 1;
  return number;
}

ordered_json array_json(const MetaArray& array) {
  ordered_json out = ordered_json::array();
  std::visit(
      [&](const auto& list) {
        for (const auto& item : list) {
          using Item = std::decay_t<decltype(item)>;
          if constexpr (std::is_same_v<Item, MetaArray>) {
            out.push_back(array_json(item));
          } else if constexpr (std::is_same_v<Item, std::string>) {
            out.push_back(string_json(item));
          } else if constexpr (std::is_same_v<Item, double>) {
            out.push_back(float_json(array.element, item));
          } else if (array.element == MetaType::kBool && item <= 1) {
            out.push_back(item == 1);
          } else {
            out.push_back(item);
          }
        }
      },
      array.values);
  return out;
}

// "u32"; for arrays "[u32]", nested "[[string]]". Empty or mixed inner arrays keep their own element types.
Types array_type_json(const MetaArray& array) {
  if (const auto* inner = std::get_if<std::vector<MetaArray>>(&array.values)) {
    Types types = Types::array();
    for (const MetaArray& item : *inner) types.push_back(array_type_json(item));
    return types;
  }
  return fmt::format("[{}]", meta_type_name(array.element));
}

Types type_json(const MetaValue& value) {
  if (const auto* array = std::get_if<MetaArray>(&value.value)) return array_type_json(*array);
  return meta_type_name(value.type);
}

double number_from(MetaType type, const ordered_json& json) {
  if (json.is_number())
    return type == MetaType::kF32 ? double{static_cast<float>(json.get<double>())} : json.get<double>();
  const std::string text = json.get<std::string>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return text == "-nan" ? -std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::quiet_NaN();
}

std::string string_from(const ordered_json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string text;
  for (const auto& byte : json) text += static_cast<char>(byte.get<std::uint8_t>());
  return text;
}

std::uint64_t unsigned_from(const ordered_json& json) {
  return json.is_boolean() ? std::uint64_t{json.get<bool>()} : json.get<std::uint64_t>();
}

template <typename Convert>
auto list_from(const ordered_json& json, const Convert& convert) {
  std::vector<decltype(convert(json))> list;
  list.reserve(json.size());
  for (const auto& item : json) list.push_back(convert(item));
  return list;
}

bool is_signed(MetaType type) {
  return type == MetaType::kI8 || type == MetaType::kI16 || type == MetaType::kI32 || type == MetaType::kI64;
}

MetaArray array_from(const ordered_json& json, const Types& type, std::size_t depth = 1) {
  MetaArray array;
  if (depth > kMaxDepth) fail(ErrorCode::kCorrupt, "{} nests arrays more than {} deep", kTypesKey, kMaxDepth);
  if (type.is_array()) {
    array.element = MetaType::kArray;
    std::vector<MetaArray> inner;
    for (std::size_t i = 0; i < type.size(); ++i) inner.push_back(array_from(json.at(i), type.at(i), depth + 1));
    array.values = std::move(inner);
    return array;
  }
  const std::string name = type.get<std::string>();
  if (name.size() < 3 || !meta_type_from_name(name.substr(1, name.size() - 2), array.element)) {
    fail(ErrorCode::kCorrupt, "{} names the unknown type {}", kTypesKey, name);
  }
  if (is_float(array.element)) {
    array.values = list_from(json, [&](const ordered_json& j) { return number_from(array.element, j); });
  } else if (array.element == MetaType::kString) {
    array.values = list_from(json, string_from);
  } else if (is_signed(array.element)) {
    array.values = list_from(json, [](const ordered_json& j) { return j.get<std::int64_t>(); });
  } else {
    array.values = list_from(json, unsigned_from);
  }
  return array;
}

MetaValue value_from(const std::string& text, const Types& type) {
  const ordered_json json = ordered_json::parse(text);
  MetaValue value;
  if (type.is_array() || type.get<std::string>().starts_with('[')) {
    value.type = MetaType::kArray;
    value.value = array_from(json, type);
    return value;
  }
  if (!meta_type_from_name(type.get<std::string>(), value.type)) {
    fail(ErrorCode::kCorrupt, "{} names the unknown type {}", kTypesKey, type.get<std::string>());
  }
  if (is_float(value.type)) {
    value.value = number_from(value.type, json);
  } else if (value.type == MetaType::kString) {
    value.value = string_from(json);
  } else if (is_signed(value.type)) {
    value.value = json.get<std::int64_t>();
  } else {
    value.value = unsigned_from(json);
  }
  return value;
}

template <typename Json>
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string metadata_json(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return dump(ordered_json(*text));
  return dump(value_json(value));
}

std::vector<std::pair<std::string, std::string>> metadata_to_text(const Metadata& metadata) {
  std::vector<std::pair<std::string, std::string>> text;
  Types types = Types::object();
  for (const auto& [key, value] : metadata) {
    const std::string* plain = value.as_string();
    if (plain && is_utf8(*plain)) {
      text.emplace_back(key, *plain);
      continue;
    }
    text.emplace_back(key, dump(value_json(value)));
    types[key] = type_json(value);
  }
  if (!types.empty()) text.emplace_back(kTypesKey, dump(types));
  return text;
}

Metadata metadata_from_text(const std::vector<std::pair<std::string, std::string>>& text) {
  Types types = Types::object();
  for (const auto& [key, value] : text) {
    if (key != kTypesKey) continue;
    types = Types::parse(value, nullptr, false);
    if (!types.is_object()) fail(ErrorCode::kCorrupt, "metadata '{}' is not a JSON object", kTypesKey);
  }
  Metadata metadata;
  for (const auto& [key, value] : text) {
    if (key == kTypesKey) continue;
    const auto type = types.find(key);
    try {
      metadata.append(key, type == types.end() ? MetaValue::string(value) : value_from(value, *type));
    } catch (const nlohmann::json::exception& error) {
      fail(ErrorCode::kCorrupt, "metadata '{}' does not fit its type in '{}': {}", key, kTypesKey, error.what());
    }
  }
  return metadata;
}

}  // namespace wconv
