// The man page and docs/cli.md.
#include <fmt/format.h>

#include "manual.h"

namespace wconv::tool {
namespace {

constexpr std::string_view kFiles =
    "A model is a file, a folder with config.json and weights, an index of shards, or the first file of several; its "
    "content, not its name, says the format. Any may be compressed with zstd (.zst).";

std::string roff(std::string text) {
  text = replaced(std::move(text), "\\", "\\e");
  text = replaced(std::move(text), "-", "\\-");
  return text.starts_with('.') || text.starts_with('\'') ? "\\&" + text : text;
}

std::string man_options(const std::vector<OptionText>& options) {
  std::string text;
  for (const OptionText& option : options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back("\\fB" + roff(name) + "\\fR");
    text += ".TP\n" + joined(names, ", ") + (option.value.empty() ? "" : " \\fI" + roff(option.value) + "\\fR") + "\n" +
            roff(option.help) + (option.many ? " (may be repeated)" : "") + ".\n";
  }
  return text;
}

std::string man_command(const CommandText& command) {
  std::string text = fmt::format(".SS {}\n{}.\n.PP\n.B {}\n", command.name, roff(command.help), roff(command.usage()));
  for (const ArgumentText& argument : command.arguments)
    text += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", roff(argument.name), roff(argument.help));
  text += man_options(command.options);
  return command.footer.empty() ? text : text + ".PP\n" + roff(command.footer) + "\n";
}

// Characters that Markdown would take as its own, outside of code.
std::string markdown(std::string text) {
  for (const std::string_view c : {"\\", "*", "_", "<", "`", "["}) text = replaced(text, c, "\\" + std::string(c));
  return text;
}

std::string markdown_options(const std::vector<OptionText>& options) {
  std::string text;
  for (const OptionText& option : options) {
    text +=
        fmt::format("- `{}`: {}{}.", synopsis(option), markdown(option.help), option.many ? " (may be repeated)" : "");
    text += "\n";
  }
  return text;
}

}  // namespace

std::string man_page(const Manual& manual) {
  std::string text = fmt::format(".TH WCONV 1 \"\" \"wconv {}\" \"User Commands\"\n.SH NAME\nwconv \\- {}\n",
                                 manual.version, "inspect, convert and verify the weights of AI models");
  text += ".SH SYNOPSIS\n";
  std::vector<std::string> usages;
  for (const CommandText& command : manual.commands) usages.push_back(".B " + roff(command.usage()) + "\n");
  text += joined(usages, ".br\n");
  text += ".SH DESCRIPTION\n" + roff(std::string(kFiles)) + "\n.SH COMMANDS\n";
  for (const CommandText& command : manual.commands) text += man_command(command);
  text += ".SH OPTIONS OF EVERY COMMAND\n" + man_options(manual.options) + ".SH EXIT STATUS\n" + roff(manual.footer);
  text +=
      "\n.SH ENVIRONMENT\n.TP\n.B WCONV_KERNELS\nThe kernels to use, such as scalar or avx2; the best by default.\n";
  text += ".TP\n.B NO_COLOR\nNot empty: no colour, unless \\fB\\-\\-color always\\fR asks for it.\n";
  text += ".TP\n.B TMPDIR\nWhere compressed input is unpacked that cannot be read in parts; /tmp by default.\n";
  return text;
}

std::string markdown_page(const Manual& manual) {
  std::string text =
      "<!-- Written by `wconv-docs markdown` from the options of the program; a test compares. -->\n\n# wconv\n\n" +
      markdown(manual.help) + "\n\n" + std::string(kFiles) + "\n";
  for (const CommandText& command : manual.commands) {
    text += fmt::format("\n## {}\n\n{}.\n\n    {}\n\n", command.name, markdown(command.help), command.usage());
    for (const ArgumentText& argument : command.arguments)
      text += fmt::format("- `{}`: {}.\n", argument.name, markdown(argument.help));
    text += markdown_options(command.options);
    if (!command.footer.empty()) text += "\n" + markdown(command.footer) + "\n";
  }
  text += "\n## Options of every command\n\n" + markdown_options(manual.options);
  text += "\n## Exit status\n\n" + markdown(replaced(manual.footer, "Exit status: 0 done", "0 done")) + "\n";
  text += "\n`--json` and `--progress json` are described in [json.md](json.md).\n";
  return text;
}

}  // namespace wconv::tool
