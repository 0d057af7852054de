// The records of a zip archive as every reader could see them: by the directory, by local headers, and those that no
// directory names. Nothing is refused. Source: PKWARE APPNOTE 6.3.10.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scan/region.h"

namespace wconv::scan {

struct ZipView {
  std::string name;
  std::uint64_t data = 0, stored_bytes = 0;  // in the file
  std::uint16_t method = 0, flags = 0;
  bool hidden = false;     // no directory names it
  bool two_faced = false;  // its local header says something else
};

// True where the end record of a zip directory stands at the end of the region.
bool has_end_record(const Region& region);

// One view for each way to read a record, in the order of the file; `gaps` become the ranges that belong to no record.
struct ZipViews {
  std::vector<ZipView> views;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps;
};
ZipViews zip_views(const Region& region);

}  // namespace wconv::scan
