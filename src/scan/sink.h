// Where the parts of a scan put what they find.
#pragma once

#include <map>
#include <tuple>

#include "wconv/scan.h"

namespace wconv::scan {

// Items of one report; equal ones are counted. Not thread-safe.
class Sink {
 public:
  void set_file(std::string path) { file_ = std::move(path); }

  // Work on the current file, in about the bytes that could be read meanwhile. Sound files take a few times their size.
  // Records that overlap or unpack to much can ask for any amount: the scan then ends with an item.
  void allow(std::uint64_t file_bytes);
  bool spend(std::uint64_t work);  // false: nothing is left
  bool is_spent() const { return work_left_ == 0; }

  void add(Verdict verdict, std::string code, std::string what, std::string message, const std::string& part,
           std::uint64_t offset) {
    const auto key = std::tuple(file_, part, code, what);
    const auto [known, inserted] = index_.emplace(key, report_.items.size());
    if (!inserted) {
      ++report_.items[known->second].count;
      return;
    }
    if (report_.items.size() >= kMaxItems) return drop(verdict, known);
    report_.items.push_back({verdict, std::move(code), std::move(what), std::move(message), file_, part, offset, 1});
  }
  void count_file() { ++report_.files; }
  void count_pickle() { ++report_.pickles; }
  ScanReport take();

 private:
  static constexpr std::size_t kMaxItems = 10'000;
  using Index = std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t>;
  // The list is full: the last place counts what it has no room for, with the worst of their verdicts.
  void drop(Verdict verdict, Index::iterator known);

  std::string file_;
  std::uint64_t work_left_ = 0;
  Index index_;
  ScanReport report_;
};

}  // namespace wconv::scan
