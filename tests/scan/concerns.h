// What a scan has found, as short texts; pickles to find.
#pragma once

#include <string>
#include <vector>

#include "../formats/pytorch/build.h"
#include "support/support.h"
#include "wconv/scan.h"

namespace wconv::test {

// "VERDICT what-or-code" of each item that is not data.
inline std::vector<std::string> concerns(const ScanReport& report) {
  std::vector<std::string> texts;
  for (const ScanItem& item : report.items) {
    if (item.verdict == Verdict::kData) continue;
    texts.push_back(std::string(verdict_name(item.verdict)) + " " + (item.what.empty() ? item.code : item.what));
  }
  return texts;
}

inline ScanReport scan_bytes(const std::string& bytes, const std::string& name = "model.pth") {
  const TempDir dir;
  write_file(dir / name, bytes);
  return scan_model(dir / name);
}

inline std::string call_op(const std::string& module, const std::string& name) {
  return global_op(module, name) + text_op("echo") + "\x85R";
}
inline const std::string kEvil = "\x80\x02" + call_op("os", "system") + ".";
inline const std::string kGood = "\x80\x02" + global_op("collections", "OrderedDict") + ")R.";

}  // namespace wconv::test
