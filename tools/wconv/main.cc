// wconv: the command line. Parses, dispatches, and turns every error into one line and an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>

#include "app.h"
#include "core/nearest.h"
#include "tool.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::tool {
namespace {

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

int parse_and_run(const CommandLine& line, const Globals& globals, int argc, char** argv) {
  CLI::App& app = *line.app;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw Error(ErrorCode::kUsage, usage_message(app, line.verbs, error));
    std::ostringstream text;
    app.exit(error, text, text);  // --help, --version
    print(text.str());
    flush();
    return 0;
  }
  set_up_log(globals);
  kernel_target();  // throws where WCONV_KERNELS names what is unknown or not available here
  for (const Verb& verb : line.verbs) {
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
  try {
    return parse_and_run(make_command_line(globals), globals, argc, argv);
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
