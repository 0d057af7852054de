#include "app.h"

#include <fmt/format.h>

#include "wconv/numeric.h"

namespace wconv::tool {
namespace {

// "--include GLOB ...": without the checks and exclusions that CLI11 would add, which the error messages name.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string name = value_name(*option);
    return (name.empty() ? "" : " " + name) + (takes_many(*option) ? " ..." : "");
  }
};

// Global options stand on the program and on every verb, so that they may come before or after its name.
void add_globals(CLI::App& app, Globals& globals) {
  app.add_option("--threads", globals.threads, "Threads to use (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(0u, 4096u));
  app.add_option_function<std::string>(
         "--max-memory", [&](const std::string& text) { globals.max_memory = parse_size("--max-memory", text); },
         "Limit of the memory of the whole program (convert), e.g. 512MiB")
      ->type_name("SIZE");
  app.add_flag("--json", globals.json, "Print one JSON document instead of text");
  CLI::Option* quiet = app.add_flag("-q,--quiet", globals.quiet,
                                    "Print no warnings, no progress and no report; inspect and --dry-run print theirs");
  app.add_flag("-v,--verbose", globals.verbose, "Print notes about what is done, and lists in full")->excludes(quiet);
  app.add_option("--color", globals.color, "Colour the output: auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--progress", globals.progress,
                 "Progress on stderr: auto (a bar, on a terminal), json (an object a line) or none")
      ->type_name("FORM")
      ->check(CLI::IsMember({"auto", "json", "none"}));
}

}  // namespace

std::string value_name(const CLI::Option& option) {
  const std::string text = option.get_type_name();  // NAME, or NAME:CHECK
  std::size_t end = text.find(':');
  if (end != std::string::npos && end > 0 && text[end - 1] == '[') end = text.find(':', end + 1);  // zstd[:LEVEL]
  return text.substr(0, end);
}

bool takes_many(const CLI::Option& option) { return option.get_expected_max() > 1; }

CommandLine make_command_line(Globals& globals) {
  CommandLine line{std::make_unique<CLI::App>("Inspect, convert and verify the weights of AI models.", "wconv"), {}};
  CLI::App& app = *line.app;
  app.set_version_flag(
      "--version", [] { return fmt::format("wconv {} ({})", WCONV_VERSION, kernel_target()); },
      "Print the version and the kernels in use");
  app.set_help_flag("-h,--help", "Print this help");
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  formatter->label("SUBCOMMAND", "COMMAND");
  formatter->label("SUBCOMMANDS", "COMMANDS");
  formatter->label("Positionals", "Arguments");
  app.formatter(formatter);
  app.footer(
      "Exit status: 0 done; 1 compared and different; 2 wrong usage; 65 input damaged, unsafe or unsupported; 66 "
      "input\n"
      "missing; 70 a bug of wconv; 74 reading or writing failed; 75 output busy, try again; 129, 130, 143 "
      "interrupted.\n"
      "Options of every command may come before or after its name.");
  // The last of several values of one option counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_globals(app, globals);
  app.require_subcommand(1);
  line.verbs = {add_inspect(app, globals), add_convert(app, globals), add_verify(app, globals)};
  for (const Verb& verb : line.verbs) {
    verb.app->group("Commands");
    verb.app->option_defaults()->group(kEveryCommand);
    add_globals(*verb.app, globals);
  }
  return line;
}

}  // namespace wconv::tool
