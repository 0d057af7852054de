#include "core/json_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace wconv {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  return nlohmann::json(number).dump();
}

}  // namespace wconv
