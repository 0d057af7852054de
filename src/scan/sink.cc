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

void Sink::allow(std::uint64_t file_bytes) {
  constexpr std::uint64_t kLeast = 256 * 1024, kTimes = 16, kMost = ~std::uint64_t{0} / 2;
  work_left_ = kLeast + kTimes * std::min(file_bytes, kMost / kTimes - kLeast);
}

bool Sink::spend(std::uint64_t work) {
  if (work_left_ > 0 && work >= work_left_) {
    add(Verdict::kUnknown, "too-much", "",
        "its parts overlap or unpack to so much that it was not looked through to the end", "", 0);
  }
  work_left_ -= std::min(work, work_left_);
  return work_left_ > 0;
}

ScanReport Sink::take() {
  std::stable_sort(report_.items.begin(), report_.items.end(),
                   [](const ScanItem& a, const ScanItem& b) { return a.verdict > b.verdict; });
  return std::move(report_);
}

}  // namespace scan
}  // namespace wconv
