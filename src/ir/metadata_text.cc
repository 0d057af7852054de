// Typed metadata as text, for containers that hold only strings.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "ir/metadata_limits.h"
#include "wconv/error.h"
#include "wconv/model.h"

namespace wconv {
namespace {

using nlohmann::ordered_json;
using Types = nlohmann::json;  // looked up by key

constexpr std::size_t kMaxDepth = 16;  // of nested arrays, as in GGUF files
constexpr std::string_view kTypesKey = kMetadataTypesKey;

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

template <typename Json>
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// dump() calls itself for what is nested, however deep.
template <typename Json>
std::string shown(const Json& json) {
  return json.is_structured() ? json.type_name() : dump(json);
}

struct NonFinite {
  std::string_view text;
  double number;
};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kNonFinite =
    std::to_array<NonFinite>({{"nan", kNan}, {"-nan", -kNan}, {"inf", kInfinity}, {"-inf", -kInfinity}});

// Reads the value of one key. Throws Error(kCorrupt) where it is not of its type.
class ValueReader {
 public:
  explicit ValueReader(std::string_view key) : key_(key) {}

  MetaValue value(const std::string& text, const Types& type) const {
    const ordered_json json = ordered_json::parse(text, nullptr, false);
    if (json.is_discarded()) refuse(text, "JSON");
    MetaValue value;
    if (type.is_array() || type_name(type).starts_with('[')) {
      value.type = MetaType::kArray;
      value.value = array(json, type, 1);
      return value;
    }
    value.type = scalar_type(type_name(type), type);
    with_reader(value.type, [&](const auto& read) { value.value = read(json); });
    return value;
  }

 private:
  [[noreturn]] void refuse(std::string_view found, std::string_view allowed) const {
    fail(ErrorCode::kCorrupt, "metadata '{}' does not fit its type in '{}': '{}' is not {}", printable(key_), kTypesKey,
         printable(found.substr(0, 60)), allowed);
  }
  void require(bool holds, const ordered_json& json, std::string_view allowed) const {
    if (!holds) refuse(shown(json), allowed);
  }
  [[noreturn]] void refuse_type(const Types& type) const {
    fail(ErrorCode::kCorrupt, "{} names the unknown type {} for '{}'", kTypesKey, printable(shown(type).substr(0, 60)),
         printable(key_));
  }

  std::string type_name(const Types& type) const {
    if (!type.is_string()) refuse_type(type);
    return type.get<std::string>();
  }
  MetaType scalar_type(std::string_view name, const Types& type) const {
    MetaType found;
    if (!meta_type_from_name(name, found) || found == MetaType::kArray) refuse_type(type);
    return found;
  }

  // Calls `use` with the function that reads one value of `type`, which is no array.
  template <typename Use>
  void with_reader(MetaType type, const Use& use) const {
    switch (meta_kind(type)) {
      case MetaKind::kString:
        return use([this](const ordered_json& json) { return string(json); });
      case MetaKind::kReal:
        return use([this, type](const ordered_json& json) { return real(type, json); });
      case MetaKind::kSigned:
        return use([this, type](const ordered_json& json) { return signed_number(type, json); });
      default:
        return use([this, type](const ordered_json& json) { return unsigned_number(type, json); });
    }
  }

  MetaArray array(const ordered_json& json, const Types& type, std::size_t depth) const {
    if (depth > kMaxDepth) fail(ErrorCode::kCorrupt, "{} nests arrays more than {} deep", kTypesKey, kMaxDepth);
    require(json.is_array(), json, "an array");
    MetaArray array;
    if (type.is_array()) {
      require(json.size() == type.size(), json, fmt::format("an array of {} arrays", type.size()));
      array.element = MetaType::kArray;
      std::vector<MetaArray> inner;
      for (std::size_t i = 0; i < type.size(); ++i) inner.push_back(this->array(json.at(i), type.at(i), depth + 1));
      array.values = std::move(inner);
      return array;
    }
    const std::string name = type_name(type);
    if (name.size() < 3 || !name.starts_with('[') || !name.ends_with(']')) refuse_type(type);
    array.element = scalar_type(name.substr(1, name.size() - 2), type);
    with_reader(array.element, [&](const auto& read) {
      std::vector<decltype(read(json))> list;
      list.reserve(json.size());
      for (const auto& item : json) list.push_back(read(item));
      array.values = std::move(list);
    });
    return array;
  }

  std::uint64_t unsigned_number(MetaType type, const ordered_json& json) const {
    if (type == MetaType::kBool && json.is_boolean()) return json.get<bool>();
    require(json.is_number_unsigned() && json.get<std::uint64_t>() <= meta_limits(type).most, json, meta_allowed(type));
    return json.get<std::uint64_t>();
  }

  std::int64_t signed_number(MetaType type, const ordered_json& json) const {
    const auto [least, most] = meta_limits(type);
    const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= most
                                                : json.is_number_integer() && json.get<std::int64_t>() >= least;
    require(fits, json, meta_allowed(type));
    return json.get<std::int64_t>();
  }

  double real(MetaType type, const ordered_json& json) const {
    if (json.is_number()) {
      const auto number = meta_real(type, json.get<double>());
      require(number.has_value(), json, meta_allowed(type) + ": out of its range");
      return *number;
    }
    require(json.is_string(), json, meta_allowed(type));
    const auto found = std::find_if(kNonFinite.begin(), kNonFinite.end(),
                                    [&](const NonFinite& entry) { return json.get<std::string>() == entry.text; });
    require(found != kNonFinite.end(), json, meta_allowed(type));
    return found->number;
  }

  // A string that is not UTF-8 is an array of its bytes.
  std::string string(const ordered_json& json) const {
    if (json.is_string()) return json.get<std::string>();
    require(json.is_array(), json, meta_allowed(MetaType::kString));
    std::string text;
    for (const auto& byte : json) text += static_cast<char>(unsigned_number(MetaType::kU8, byte));
    return text;
  }

  std::string_view key_;
};

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
    metadata.append(key, type == types.end() ? MetaValue::string(value) : ValueReader(key).value(value, *type));
  }
  return metadata;
}

}  // namespace wconv
