// What `wconv inspect --scan` prints and writes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tool.h"
#include "wconv/scan.h"

namespace wconv::tool {

// A model as it was named on the command line, and what was found in it.
using Scanned = std::pair<std::string, ScanReport>;

void print_scan_text(const Globals& globals, const Scanned& scanned);
// The value of "scan" in the document of inspect.
std::string scan_json(const ScanReport& report);
// One SARIF 2.1.0 log for all of them; what is data is left out.
std::string scan_sarif(const std::vector<Scanned>& scanned);

}  // namespace wconv::tool
