#include "hf_config.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace wconv::tool {

std::string config_with_dtype(const File& config, DType dtype) {
  std::vector<std::byte> bytes(config.size());
  config.read(0, bytes);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  auto json = nlohmann::ordered_json::parse(text, text + bytes.size(), nullptr, false);
  const std::string name(info(dtype).torch);
  if (!json.is_object() || name.empty()) return {};
  bool changed = false;
  for (const char* key : {"torch_dtype", "dtype"}) {
    const auto entry = json.find(key);
    if (entry == json.end() || !entry->is_string()) continue;
    *entry = name;
    changed = true;
  }
  return changed ? json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n" : std::string();
}

}  // namespace wconv::tool
