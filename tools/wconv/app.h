// The command line as a tree of CLI::App: the one table of options. Parser, help, man page, completions and
// docs/cli.md are made from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tool.h"

namespace wconv::tool {

inline constexpr const char* kEveryCommand = "Options of every command";  // their group in a verb's help

struct CommandLine {
  std::unique_ptr<CLI::App> app;
  std::vector<Verb> verbs;
};
// `globals` must live as long as the result.
CommandLine make_command_line(Globals& globals);

// "GLOB=T": what an option's value is called, without the checks that CLI11 adds to it. Empty for flags.
std::string value_name(const CLI::Option& option);
// --include is given again for each further value; MODEL... takes several.
bool takes_many(const CLI::Option& option);

}  // namespace wconv::tool
