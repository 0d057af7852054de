// Bytes of a file that are looked through: a whole file, a record of an archive, a gap between records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "scan/sink.h"
#include "wconv/file.h"

namespace wconv::scan {

struct Region {
  std::shared_ptr<const File> file;
  std::uint64_t begin = 0, end = 0;
  std::string part;     // how messages name it: "archive/data.pkl"
  bool claim = true;    // it is, or says that it is, a pickle or a container; false: weights that may look like one
  int depth = 0;        // containers around it
  bool script = false;  // in a TorchScript archive, whose own classes are no Python
  std::uint64_t size() const { return end - begin; }
};

inline constexpr int kMaxDepth = 8;

// Wider than what the reader takes for a pickle: Python begins with any opcode that needs nothing before it.
bool may_begin_pickle(std::string_view head);

// Tells by content what the region is and looks through it. False: it is neither pickle nor container.
bool scan_region(const Region& region, Sink& sink);

bool scan_pickles(const Region& region, Sink& sink);   // one or several, and what they hold
void sweep_pickles(const Region& region, Sink& sink);  // wherever the mark of protocols 2 to 5 stands
void scan_zip(const Region& region, Sink& sink);       // the directory's records, and those it hides
void scan_tar(const Region& region, Sink& sink);
void scan_numpy(const Region& region, Sink& sink);  // a .npy: pickles of objects

}  // namespace wconv::scan
