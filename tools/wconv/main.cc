// wconv: the command line. Parses, dispatches, and turns every error into one line and an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>

#include "core/nearest.h"
#include "tool.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::tool {
namespace {

// "--include GLOB ...": without the checks and exclusions that CLI11 would add, which the error messages name.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    const std::string name = type.substr(0, type.find(':'));
    return (name.empty() ? "" : " " + name) + (option->get_expected_max() > 1 ? " ..." : "");
  }
};

// Global options stand on the program and on every verb, so that they may come before or after its name.
void add_globals(CLI::App& app, Globals& globals) {
  app.add_option("--threads", globals.threads, "Threads to use (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(0u, 4096u));
  app.add_option_function<std::string>(
         "--max-memory", [&](const std::string& text) { globals.max_memory = parse_size("--max-memory", text); },
         "Limit of the memory that convert uses for weights, e.g. 512MiB")
      ->type_name("SIZE");
  app.add_flag("--json", globals.json, "Print one JSON document instead of text");
  CLI::Option* quiet = app.add_flag("-q,--quiet", globals.quiet, "Print no warnings, no progress and no report");
  app.add_flag("-v,--verbose", globals.verbose, "Print notes about what is done, and lists in full")->excludes(quiet);
  app.add_option("--color", globals.color, "Colour the output: auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

// An option or verb with the fewest edits to `text`, as "; did you mean 'TEXT'?"; empty where none is near.
std::string did_you_mean(const std::string& text, const std::vector<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view nearest = nearest_name(text, names, std::max<std::size_t>(3, text.size() / 3 + 1));
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What is wrong with the command line. A name that nobody knows is the cause of whatever else is missing.
std::string usage_message(const CLI::App& app, const std::vector<Verb>& verbs, const CLI::ParseError& error) {
  const CLI::App* verb = nullptr;
  std::vector<std::string> verb_names;
  for (const Verb& candidate : verbs) {
    verb_names.push_back(candidate.app->get_name());
    if (candidate.app->parsed()) verb = candidate.app;
  }
  const std::string help = fmt::format("; see wconv {}{}--help", verb ? verb->get_name() : "", verb ? " " : "");
  std::vector<std::string> unknown = app.remaining();
  if (verb) {
    const std::vector<std::string> more = verb->remaining();
    unknown.insert(unknown.end(), more.begin(), more.end());
  }
  if (unknown.empty() && !verb && dynamic_cast<const CLI::RequiredError*>(&error)) return "no command" + help;
  if (unknown.empty()) return error.what() + help;
  const std::string name = unknown[0].substr(0, unknown[0].find('='));
  if (name.starts_with('-')) {
    std::vector<std::string> known = option_names(verb ? *verb : app);
    return fmt::format("unknown option '{}'", name) + did_you_mean(name, known) + help;
  }
  if (!verb) return fmt::format("unknown command '{}'", name) + did_you_mean(name, verb_names) + help;
  return fmt::format("unexpected argument '{}'", name) + help;
}

// Errors of the command line itself are reported as JSON too, wherever --json stands.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

int parse_and_run(CLI::App& app, Globals& globals, int argc, char** argv) {
  // The last of several values of one option counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_globals(app, globals);
  app.require_subcommand(1);
  const std::vector<Verb> verbs = {add_inspect(app, globals), add_convert(app, globals), add_verify(app, globals)};
  for (const Verb& verb : verbs) {
    verb.app->group("Commands");
    verb.app->option_defaults()->group("Options of every command");
    add_globals(*verb.app, globals);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw Error(ErrorCode::kUsage, usage_message(app, verbs, error));
    std::ostringstream text;
    app.exit(error, text, text);  // --help, --version
    print(text.str());
    flush();
    return 0;
  }
  set_up_log(globals);
  kernel_target();  // throws where WCONV_KERNELS names what is unknown or not available here
  for (const Verb& verb : verbs) {
    if (!verb.app->parsed()) continue;
    const int status = verb.run();
    flush();
    return status;
  }
  fail(ErrorCode::kInternal, "no verb ran");
}

int run(int argc, char** argv) {
  Globals globals;
  globals.json = asks_for_json(argc, argv);
  CLI::App app("Inspect, convert and verify the weights of AI models.", "wconv");
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
      "missing; 70 a bug of wconv; 74 reading or writing failed; 75 output busy, try again; 130, 143 interrupted.\n"
      "Options of every command may come before or after its name.");
  try {
    return parse_and_run(app, globals, argc, argv);
  } catch (const Error& error) {
    return report_error(globals, error);
  } catch (const std::bad_alloc&) {
    return report_error(globals, Error(ErrorCode::kIo, "out of memory"));
  } catch (const std::exception& error) {
    return report_error(globals, Error(ErrorCode::kInternal, error.what()));
  }
}

}  // namespace
}  // namespace wconv::tool

int main(int argc, char** argv) {
  wconv::tool::prepare_process();
  const int status = wconv::tool::run(argc, argv);
  try {
    wconv::tool::flush();  // the document of an error
  } catch (const wconv::Error& error) {
    return status != 0 ? status : wconv::exit_status(error.code());
  }
  return status;
}
