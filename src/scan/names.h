// What a global name in a pickle means to a scan.
#pragma once

#include <string_view>

#include "wconv/scan.h"

namespace wconv::scan {

// kData, kUnknown or kDanger. `name`: "os.system".
Verdict verdict_of_global(std::string_view name);

}  // namespace wconv::scan
