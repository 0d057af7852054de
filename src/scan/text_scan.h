// Text that other programs run or fetch by: chat templates, code that a config asks for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scan/sink.h"
#include "wconv/file.h"

namespace wconv::scan {

// A Jinja template. Reports what reaches for the insides of Python: names with leading underscores, the attr filter,
// escapes in strings, imports, and globals that lead there.
void scan_template(std::string_view text, const std::string& part, Sink& sink);

// A JSON file beside weights: chat templates anywhere in it, auto_map, index files whose names leave the folder.
// Returns the files that it names as an index and that are below its folder, each once.
std::vector<std::string> scan_json(const std::shared_ptr<const File>& file, Sink& sink);

}  // namespace wconv::scan
