// What loading a model with other programs could run. Nothing is run here, and nothing has to be sound: broken, renamed
// and two-faced files are looked through all the same.
//
// The method is a list of what is known to be data (formats/pytorch/globals.h); whatever a pickle names beyond that
// is reported. Known ways to run code are told from merely unknown names, but both are refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wconv {

enum class Verdict : std::uint8_t {
  kData,     // known to be data
  kNote,     // not run by loading weights, but worth knowing: TorchScript, operators of custom libraries
  kUnknown,  // not known to be data
  kDanger,   // known to run code, read files or reach the network
};
std::string_view verdict_name(Verdict verdict);  // "data", "note", "unknown", "danger"

struct ScanItem {
  Verdict verdict = Verdict::kUnknown;
  std::string code;          // stable: "pickle-global", "chat-template"
  std::string what;          // "os.system"
  std::string message;       // one sentence
  std::string file;          // path
  std::string part;          // of the file: "archive/data.pkl"; empty: all of it
  std::uint64_t offset = 0;  // bytes from the part's start, of the first of `count`
  std::uint64_t count = 1;
};

struct ScanReport {
  std::vector<ScanItem> items;  // worst first, then in the order of files and offsets
  std::uint64_t files = 0, pickles = 0;
  Verdict worst() const;
  bool refused() const { return worst() >= Verdict::kUnknown; }
};

// Scans a file, or a folder with everything in it (dot files too; folders 8 deep); an index stands for its folder.
// Throws Error(kMissing | kIo) where something cannot be read at all, Error(kUsage) where `path` is no file or folder.
ScanReport scan_model(const std::string& path);

}  // namespace wconv
