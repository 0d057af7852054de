// wconv: the command line. Parses, dispatches, and turns every error into one line and an exit status.
#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <new>

#include "tool.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::tool {

namespace {

// Global options stand on the program and on every verb, so that they may come before or after its name.
void add_globals(CLI::App& app, Globals& globals) {
  app.add_option("--threads", globals.threads, "Threads to use (default: all cores)")->type_name("N")->check(CLI::Range(0u, 4096u));
  app.add_option_function<std::string>("--max-memory", [&](const std::string& text) { globals.max_memory = parse_size(text); },
                                       "Limit of the memory used, e.g. 512MiB")->type_name("SIZE");
  app.add_flag("--json", globals.json, "Print one JSON document instead of text");
  app.add_flag("-q,--quiet", globals.quiet, "Print no warnings and no progress");
  app.add_flag("-v,--verbose", globals.verbose, "Print notes about what is done");
  app.add_option("--color", globals.color, "Colour the output")->type_name("WHEN")->check(CLI::IsMember({"auto", "always", "never"}));
}

int run(int argc, char** argv) {
  Globals globals;
  CLI::App app("Inspect, convert and verify the weights of AI models.", "wconv");
  app.set_version_flag("--version", [] { return fmt::format("wconv {} ({})", WCONV_VERSION, kernel_target()); },
                       "Print the version and the kernels in use");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_globals(app, globals);
  const std::vector<Verb> verbs = {add_inspect(app, globals), add_convert(app, globals), add_verify(app, globals)};
  for (const Verb& verb : verbs) add_globals(*verb.app, globals);
  try {
    app.parse(argc, argv);
    for (const Verb& verb : verbs) {
      if (!verb.app->parsed()) continue;
      const int status = verb.run();
      flush();
      return status;
    }
    fail(ErrorCode::kInternal, "no verb ran");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      const int status = app.exit(error);
      return status;
    }
    for (int i = 1; i < argc; ++i) globals.json = globals.json || std::string_view(argv[i]) == "--json";
    return report_error(globals, Error(ErrorCode::kUsage, fmt::format("{}; see wconv --help", error.what())));
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
  wconv::tool::install_signal_handlers();
  const int status = wconv::tool::run(argc, argv);
  try {
    wconv::tool::flush();
  } catch (const wconv::Error& error) {
    fmt::print(stderr, "wconv: error: {}\n", error.what());
    return wconv::exit_status(error.code());
  }
  return status;
}
