// The option table as text: what the man page, docs/cli.md and the completions are written from.
#pragma once

#include <string>
#include <vector>

#include "../app.h"

namespace wconv::tool {

struct OptionText {
  std::vector<std::string> names;  // "-f", "--force"; short ones first
  std::string value;               // "GLOB=T"; empty: a flag
  std::string help;                // one line
  bool required = false;
  bool many = false;               // may be repeated
  bool files = false;              // the value is a path
  std::vector<std::string> words;  // the values that there are; empty: any
};

struct ArgumentText {
  std::string name, help;
  bool required = false, many = false;
};

struct CommandText {
  std::string name, help, footer;
  std::vector<ArgumentText> arguments;
  std::vector<OptionText> options;  // without those of every command
  std::string usage() const;        // "wconv convert [OPTIONS] IN -o OUT"
};

struct Manual {
  std::string version, help, footer;
  std::vector<OptionText> options;  // of every command, and --help and --version
  std::vector<CommandText> commands;
};
// Throws Error(kInternal) for an option without help, or with a value that the table in manual.cc does not know.
Manual make_manual(const CommandLine& line, std::string version);

// "-o, --output OUT"
std::string synopsis(const OptionText& option);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);
// Every one of `from` is replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to);

std::string man_page(const Manual& manual);
std::string markdown_page(const Manual& manual);
std::string bash_completion(const Manual& manual);
std::string zsh_completion(const Manual& manual);
std::string fish_completion(const Manual& manual);

}  // namespace wconv::tool
