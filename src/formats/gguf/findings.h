// Findings about one file, with repetitions counted and not listed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/model.h"

namespace wconv::gguf {

class FindingList {
 public:
  // After kListed of one code the rest is only counted.
  void warn(std::string_view code, std::string message);
  std::vector<Finding> take();

 private:
  static constexpr std::size_t kListed = 8;
  std::vector<Finding> findings_;
  std::map<std::string, std::size_t, std::less<>> counts_;
};

}  // namespace wconv::gguf
