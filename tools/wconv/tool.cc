#include "tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "core/json_text.h"
#include "wconv/error.h"
#include "wconv/interrupt.h"

namespace wconv::tool {
namespace {

std::atomic<int> g_signal{0};
std::atomic<std::int64_t> g_signal_ms{0};

std::int64_t milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// A later signal ends the program at once. One that comes right after the first is the same: `timeout` signals its
// child, and then the group that the child is in.
extern "C" void on_signal(int number) {
  constexpr std::int64_t kSameMs = 500;
  if (g_signal == 0) {
    g_signal_ms = milliseconds();
    g_signal = number;
  } else if (milliseconds() - g_signal_ms > kSameMs) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
}

std::string g_out;
bool g_closed = false;

// Not registered with spdlog, and never throws: a full or closed stderr does not change the exit status.
spdlog::logger& log() {
  static spdlog::logger logger = [] {
    spdlog::logger made("wconv", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("wconv: %l: %v");
    return made;
  }();
  return logger;
}

}  // namespace

CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return verb.add_option(name, values, help)->take_all()->allow_extra_args(false);
}

CLI::Option* add_text(CLI::App& verb, const std::string& name, std::string& value, const std::string& help) {
  const auto not_empty = [](const std::string& text) { return text.empty() ? "the value is empty" : ""; };
  return verb.add_option(name, value, help)->check(CLI::Validator(not_empty, ""));
}

void check_is_path(const std::string& path, std::string_view what) {
  if (path != "-") return;
  fail(ErrorCode::kUsage,
       "'-': the {} is not a stream, for its bytes are not handled in order; name a file (./- if that is its name)",
       what);
}

void prepare_process() {
  // A standard stream that was closed is opened so that writing to it fails, and no model's file gets its number.
  for (int descriptor = ::open("/dev/null", O_RDONLY); descriptor >= 0; descriptor = ::open("/dev/null", O_RDONLY)) {
    if (descriptor <= STDERR_FILENO) continue;
    ::close(descriptor);
    break;
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;  // the lower one is for programs that use select()
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction old {};
    if (::sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;  // nohup
    ::sigaction(number, &action, nullptr);
  }
  interrupt_reads_on(&g_signal);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write, like a full disk
}

const std::atomic<int>& interrupted() { return g_signal; }

std::uint64_t parse_size(std::string_view option, const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                                   {"B", 1},
                                                   {"K", 1e3},
                                                   {"KB", 1e3},
                                                   {"KIB", 0x1p10},
                                                   {"M", 1e6},
                                                   {"MB", 1e6},
                                                   {"MIB", 0x1p20},
                                                   {"G", 1e9},
                                                   {"GB", 1e9},
                                                   {"GIB", 0x1p30},
                                                   {"T", 1e12},
                                                   {"TB", 1e12},
                                                   {"TIB", 0x1p40}}};
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  std::string unit(end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  for (const Unit& known : kUnits) {
    if (end == begin || unit != known.name || !(number * known.bytes >= 1) || number * known.bytes >= 0x1p63) continue;
    return static_cast<std::uint64_t>(number * known.bytes);
  }
  fail(ErrorCode::kUsage, "{}: '{}' is no size; write it like 512MiB or 5GB", option, text);
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
  while (done < g_out.size() && !g_closed) {
    const ssize_t written = ::write(STDOUT_FILENO, g_out.data() + done, g_out.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno == EPIPE) {
      g_closed = true;
    } else if (errno == EAGAIN) {  // a pipe that whoever made it set to O_NONBLOCK
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&writable, 1, -1);
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

void print_json(std::string_view text) {
  constexpr std::string_view kLeads =
      "\x7f\xc2\xe2";  // of DEL, of C1 controls, of line separators and changes of direction
  std::string escaped;
  std::size_t done = 0;
  for (std::size_t at = text.find_first_of(kLeads); at < text.size(); at = text.find_first_of(kLeads, at + 1)) {
    const std::size_t length = text[at] == '\x7f' ? 1 : text[at] == '\xc2' ? 2 : 3;
    const std::string_view sequence = text.substr(at, length);
    if (printable(sequence) == sequence || sequence.size() < length) continue;
    unsigned code = static_cast<unsigned char>(sequence[0]) & (length == 1 ? 0x7fu : 0x0fu);
    for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
    escaped.append(text, done, at - done);
    escaped += fmt::format("\\u{:04x}", code);
    done = at + length;
  }
  print(escaped.append(text, done));
}

bool output_closed() { return g_closed; }

void set_up_log(const Globals& globals) {
  namespace level = spdlog::level;
  log().set_level(globals.quiet ? level::err : globals.verbose ? level::debug : level::info);
}

void warn(std::string_view text) { log().warn(printable(text)); }
void hint(std::string_view text) { log().info(printable(text)); }
void note(std::string_view text) { log().debug(printable(text)); }

void report_findings(const Model& model) {
  for (const Finding& finding : model.findings) {
    const std::string text = fmt::format("{}: {}", model.path, finding.message);
    if (finding.severity != Severity::kNote) {
      warn(text);
    } else if (finding.code == "picked-key") {
      hint(text);
    } else {
      note(text);
    }
  }
}

int report_error(const Globals& globals, const Error& error, std::string_view more) {
  if (globals.json) {
    std::string text = fmt::format("{{\"schema\": 1, \"error\": {{\"code\": \"{}\", \"message\": {}",
                                   error_code_name(error.code()), json_string(error.message()));
    if (error.file()) text += ", \"file\": " + json_string(*error.file());
    if (error.tensor()) text += ", \"tensor\": " + json_string(*error.tensor());
    if (error.offset()) text += fmt::format(", \"offset\": {}", *error.offset());
    print_json(fmt::format("{}}}{}}}\n", text, more));
  }
  log().error(error.what());
  if (error.code() == ErrorCode::kInternal) log().error("this is a bug in wconv; please report it");
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

std::string json_strings(const std::vector<std::string>& strings) {
  std::string text;
  for (const std::string& item : strings) text += (text.empty() ? "" : ", ") + json_string(item);
  return "[" + text + "]";
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "×"));
}

}  // namespace wconv::tool
