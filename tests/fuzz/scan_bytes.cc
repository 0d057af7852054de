// Bytes through `inspect --scan`, which must look through anything.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "wconv/error.h"
#include "wconv/scan.h"

namespace {

namespace fs = std::filesystem;

// One file for the life of the program: a scan takes a path.
const std::string& scratch() {
  static const std::string path = [] {
    std::string name = fs::exists("/dev/shm") ? "/dev/shm/wconv-fuzz-XXXXXX" : "/tmp/wconv-fuzz-XXXXXX";
    ::close(::mkstemp(name.data()));
    std::atexit([] { ::unlink(scratch().c_str()); });
    return name;
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::ofstream(scratch(), std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const wconv::ScanReport report = wconv::scan_model(scratch());
    for (const wconv::ScanItem& item : report.items) {
      if (item.code.empty() || item.message.empty()) std::abort();
    }
  } catch (const wconv::Error& error) {
    if (exit_status(error.code()) == 70) std::abort();
  }
  return 0;
}
