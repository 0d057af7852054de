// What the subcommands share. Everything a person reads is written below tools/wconv; the library prints nothing.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/model.h"

namespace wconv::tool {

// Options that every verb takes, before or after its name.
struct Globals {
  unsigned threads = 0;          // 0: all cores
  std::uint64_t max_memory = 0;  // bytes; 0: the default
  bool json = false, quiet = false, verbose = false;
  std::string color = "auto", progress = "auto";
};

// One verb: declares its options on `app` and returns what runs it; that returns the exit status or throws Error.
// app.h makes the tree of them.
struct Verb {
  CLI::App* app = nullptr;
  std::function<int()> run;
};
Verb add_inspect(CLI::App& app, const Globals& globals);
Verb add_convert(CLI::App& app, const Globals& globals);
Verb add_verify(CLI::App& app, const Globals& globals);

// An option that may be given again and again; each time takes one value.
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                      const std::string& help);

// An option whose value is a text that is not empty; without the option `value` is.
CLI::Option* add_text(CLI::App& verb, const std::string& name, std::string& value, const std::string& help);

// Set by SIGINT, SIGTERM and SIGHUP to the signal's number.
const std::atomic<int>& interrupted();
// Handlers for those, no SIGPIPE, and no file that wconv opens can become its stdin, stdout or stderr.
void prepare_process();

// Throws Error(kUsage) for "-": models need files that can be read and written by position.
void check_is_path(const std::string& path, std::string_view what);

// "512MiB", "5GB", "1000": bytes. Throws Error(kUsage).
std::uint64_t parse_size(std::string_view option, const std::string& text);
// "11.0 MiB"
std::string human_size(std::uint64_t bytes);
// "5,771,520"
std::string grouped(std::uint64_t number);

// stdout, buffered. Once the reader has closed the pipe (head, less) the rest is dropped quietly; another failure
// throws Error(kIo).
void print(std::string_view text);
// Part of a JSON document: characters that could repaint a terminal are written as \u escapes, which JSON doesn't
// demand.
void print_json(std::string_view text);
void flush();
bool output_closed();  // nobody reads what is printed

// Lines "wconv: LEVEL: …" on stderr. --quiet leaves the errors, -v adds the notes; without either, hints are shown too.
void set_up_log(const Globals& globals);
void warn(std::string_view text);
void hint(std::string_view text);
void note(std::string_view text);
// Every finding of a model, as warnings and notes; what was chosen for the user is a hint.
void report_findings(const Model& model);

// One line on stderr, and with --json one JSON document on stdout, to which `more` adds keys (", \"scan\": …"). Returns
// the exit status.
int report_error(const Globals& globals, const Error& error, std::string_view more = {});

// True when stdout may be coloured (--color, NO_COLOR, TERM, terminal).
bool use_color(const Globals& globals);
inline std::string bold(const Globals& globals, std::string_view text) {
  return use_color(globals) ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}
inline std::string red(const Globals& globals, std::string_view text) {
  return use_color(globals) ? "\x1b[31m" + std::string(text) + "\x1b[0m" : std::string(text);
}
inline std::string green(const Globals& globals, std::string_view text) {
  return use_color(globals) ? "\x1b[32m" + std::string(text) + "\x1b[0m" : std::string(text);
}

// What is called with the bytes done and to do; `label` is "reading", "converting" or "comparing". --progress auto: a
// bar on stderr with rate and ETA where that is a terminal and neither --quiet nor --json was given. --progress json:
// one JSON object a line on stderr, at most one a second and one at the end. Otherwise empty.
std::function<void(std::uint64_t, std::uint64_t)> progress_bar(const Globals& globals, std::string label);

// A JSON list of strings.
std::string json_strings(const std::vector<std::string>& strings);

// "shape [2, 3]" as it is shown to people: "2×3"; a scalar: "scalar".
std::string shape_text(const std::vector<std::uint64_t>& shape);

}  // namespace wconv::tool
