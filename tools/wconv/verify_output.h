// What `wconv verify` prints.
#pragma once

#include "tool.h"
#include "wconv/verify.h"

namespace wconv::tool {

struct VerifiedPaths {
  std::string reference, candidate;
};

void print_report_text(const Globals& globals, const VerifyReport& report, const VerifyOptions& options);
void print_report_json(const VerifiedPaths& paths, const VerifyReport& report);
void print_whole_text(const Globals& globals, const Model& model, const WholeReport& report);
void print_whole_json(const Model& model, const WholeReport& report);

}  // namespace wconv::tool
