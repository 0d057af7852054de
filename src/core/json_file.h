// JSON documents of a bounded size and depth, from files that may be hostile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {

// All of the document, or of an object only the members that are called one of `keys`. Json is nlohmann::json, or
// nlohmann::ordered_json where the order of keys is to be kept (then looking a key up takes linear time).
// Throws Error(kCorrupt) naming the file; a key that an object holds twice is one, for readers take either.
template <typename Json>
Json json_in(const File& file, std::initializer_list<std::string_view> keys = {},
             std::uint64_t max_bytes = 64 * 1024 * 1024) {
  constexpr int kMaxDepth = 128;
  const auto refuse = [&](const std::string& why) { throw Error(ErrorCode::kCorrupt, why).in_file(file.path()); };
  if (file.size() > max_bytes) refuse(fmt::format("{} bytes is too large for such a file", file.size()));
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  std::vector<std::set<std::string, std::less<>>> seen(1);  // keys of the objects around, by depth
  const auto wanted = [&](int depth, typename Json::parse_event_t event, const Json& value) {
    if (depth > kMaxDepth) refuse("the JSON nests too deeply");
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      seen.resize(level + 1);
      seen.emplace_back();
    }
    if (event == Json::parse_event_t::key) {
      const auto& key = value.template get_ref<const std::string&>();
      if (!seen.at(level).insert(key).second)
        refuse(fmt::format("the key '{}' stands twice in one JSON object, so that readers differ", printable(key)));
    }
    if (keys.size() == 0 || depth != 1 || event != Json::parse_event_t::key) return true;
    return std::find(keys.begin(), keys.end(), value.template get_ref<const std::string&>()) != keys.end();
  };
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    return Json::parse(text, text + bytes.size(), wanted);
  } catch (const typename Json::exception& error) {
    throw Error(ErrorCode::kCorrupt, fmt::format("is not JSON: {}", error.what())).in_file(file.path());
  }
}

}  // namespace wconv
