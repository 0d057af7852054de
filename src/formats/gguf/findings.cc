#include "formats/gguf/findings.h"

#include <utility>

#include "wconv/error.h"

namespace wconv::gguf {

void FindingList::warn(std::string_view code, std::string message) {
  const std::size_t count = ++counts_[std::string(code)];
  if (count <= kListed) findings_.push_back({Severity::kWarning, std::string(code), std::move(message)});
}

std::vector<Finding> FindingList::take() {
  for (const auto& [code, count] : counts_)
    if (count > kListed)
      findings_.push_back({Severity::kWarning, code, fmt::format("and {} more of the same kind", count - kListed)});
  counts_.clear();
  return std::move(findings_);
}

}  // namespace wconv::gguf
