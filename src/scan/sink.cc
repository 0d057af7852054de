#include "scan/sink.h"

#include <algorithm>

namespace wconv {

std::string_view verdict_name(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"data", "note", "unknown", "danger"};
  return kNames[static_cast<std::size_t>(verdict)];
}

Verdict ScanReport::worst() const {
  Verdict worst = Verdict::kData;
  for (const ScanItem& item : items) worst = std::max(worst, item.verdict);
  return worst;
}

namespace scan {

void Sink::drop(Verdict verdict, Index::iterator known) {
  index_.erase(known);
  ScanItem& last = report_.items.back();
  if (last.code != "more") last = {last.verdict, "more", "", "more than can be listed", last.file, "", 0, 1};
  last.verdict = std::max(last.verdict, verdict);
  ++last.count;
}

ScanReport Sink::take() {
  std::stable_sort(report_.items.begin(), report_.items.end(),
                   [](const ScanItem& a, const ScanItem& b) { return a.verdict > b.verdict; });
  return std::move(report_);
}

}  // namespace scan
}  // namespace wconv
