#include "hf_config.h"

#include <nlohmann/json.hpp>

#include "core/json_file.h"

namespace wconv::tool {

std::string config_with_dtype(const File& config, DType dtype) {
  nlohmann::ordered_json json;
  try {
    json = json_in<nlohmann::ordered_json>(config);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
    return {};  // copied as it is; opening the folder has warned of it
  }
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
