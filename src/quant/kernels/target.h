// Which variant of the kernels runs: the best that this CPU has, or what WCONV_KERNELS names.
#pragma once

#include <string_view>

namespace wconv::kernels {

// What a value of WCONV_KERNELS means here ("" : no override).
struct Target {
  bool scalar = false;             // the plain reference
  long long disabled_targets = 0;  // Highway targets that must not be used
  std::string_view name;           // static, lower case: "avx2"
};

// Throws Error(kUsage), with the names allowed here, when `name` is not one of them.
Target resolve_target(std::string_view name);

// Reads the environment and applies the result once; throws as resolve_target, then and on each later call.
const Target& chosen_target();

}  // namespace wconv::kernels
