#include "tool.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/json_text.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

std::atomic<int> g_signal{0};
extern "C" void on_signal(int number) { g_signal = number; }

std::string g_out;

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write, like a full disk
}

const std::atomic<int>& interrupted() { return g_signal; }

std::uint64_t parse_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr std::array<Unit, 14> kUnits = {{{"", 1},       {"B", 1},        {"K", 1e3},       {"KB", 1e3},     {"KIB", 0x1p10},
                                                   {"M", 1e6},    {"MB", 1e6},     {"MIB", 0x1p20},  {"G", 1e9},      {"GB", 1e9},
                                                   {"GIB", 0x1p30}, {"T", 1e12},   {"TB", 1e12},     {"TIB", 0x1p40}}};
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  std::string unit(end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  for (const Unit& known : kUnits) {
    if (end == begin || unit != known.name || !(number > 0) || number * known.bytes >= 0x1p63) continue;
    return static_cast<std::uint64_t>(number * known.bytes);
  }
  fail(ErrorCode::kUsage, "'{}' is no size; write it like 512MiB or 5GB", text);
}

std::string human_size(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1024 && unit + 1 < kUnits.size()) {
    number /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", number, kUnits[unit]);
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

void flush() {
  std::size_t done = 0;
  while (done < g_out.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, g_out.data() + done, g_out.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EPIPE) {
      std::_Exit(0);  // the reader (head, less) has seen enough
    } else if (errno != EINTR) {
      g_out.clear();
      fail(ErrorCode::kIo, "standard output: cannot write: {}", std::strerror(errno));
    }
  }
  g_out.clear();
}

void print(std::string_view text) {
  g_out += text;
  if (g_out.size() > 64 * 1024) flush();
}

void warn(const Globals& globals, std::string_view text) {
  if (!globals.quiet) fmt::print(stderr, "wconv: warning: {}\n", printable(text));
}

void note(const Globals& globals, std::string_view text) {
  if (globals.verbose && !globals.quiet) fmt::print(stderr, "wconv: {}\n", printable(text));
}

void report_findings(const Globals& globals, const Model& model) {
  for (const Finding& finding : model.findings) {
    const std::string text = fmt::format("{}: {}", model.path, finding.message);
    if (finding.severity != Severity::kNote) {
      warn(globals, text);
    } else if (finding.code == "picked-key" && !globals.quiet) {
      fmt::print(stderr, "wconv: note: {}\n", printable(text));
    } else {
      note(globals, text);
    }
  }
}

int report_error(const Globals& globals, const Error& error) {
  if (globals.json) {
    std::string text = fmt::format("{{\"schema\": 1, \"error\": {{\"code\": \"{}\", \"message\": {}",
                                   error_code_name(error.code()), json_string(error.message()));
    if (error.file()) text += ", \"file\": " + json_string(*error.file());
    if (error.tensor()) text += ", \"tensor\": " + json_string(*error.tensor());
    if (error.offset()) text += fmt::format(", \"offset\": {}", *error.offset());
    print(text + "}}\n");
  }
  fmt::print(stderr, "wconv: error: {}\n", error.what());
  if (error.code() == ErrorCode::kInternal) fmt::print(stderr, "wconv: this is a bug in wconv; please report it\n");
  if (error.code() == ErrorCode::kInterrupted && interrupted() != 0) return 128 + interrupted();
  return exit_status(error.code());
}

bool use_color(const Globals& globals) {
  if (globals.color == "always") return true;
  if (globals.color == "never" || ::isatty(STDOUT_FILENO) != 1) return false;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no_color && *no_color) && term && std::string_view(term) != "dumb";
}

std::function<void(std::uint64_t, std::uint64_t)> progress_bar(const Globals& globals, std::string label) {
  if (globals.quiet || globals.json || !stderr_is_terminal()) return nullptr;
  using Clock = std::chrono::steady_clock;
  struct State {
    Clock::time_point start = Clock::now(), drawn{};
  };
  return [state = std::make_shared<State>(), label = std::move(label)](std::uint64_t done, std::uint64_t total) {
    const auto now = Clock::now();
    if (done >= total) {
      fmt::print(stderr, "\r\x1b[K");
      return;
    }
    if (now - state->drawn < std::chrono::milliseconds(100)) return;
    state->drawn = now;
    const double seconds = std::chrono::duration<double>(now - state->start).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(share * 24);
    const auto left = static_cast<std::uint64_t>(static_cast<double>(total - done) / std::max(rate, 1.0));
    fmt::print(stderr, "\r\x1b[K{} [{:=<{}}{:{}}] {:3.0f} %  {}/s  {}:{:02} left", label, "", filled, "", 24 - filled,
               share * 100, human_size(static_cast<std::uint64_t>(rate)), left / 60, left % 60);
    std::fflush(stderr);
  };
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "×"));
}

}  // namespace wconv::tool
