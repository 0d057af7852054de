// The progress of a long run on stderr: a bar for people, lines of JSON for job runners.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>

#include "tool.h"

namespace wconv::tool {
namespace {

using Clock = std::chrono::steady_clock;
using Progress = std::function<void(std::uint64_t, std::uint64_t)>;

struct State {
  Clock::time_point start = Clock::now(), shown{};
  std::uint64_t shown_bytes = std::numeric_limits<std::uint64_t>::max();  // none yet
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  double rate(std::uint64_t done) const { return static_cast<double>(done) / std::max(seconds(), 1e-3); }
  bool due(std::chrono::milliseconds pause) {
    const auto now = Clock::now();
    if (now - shown < pause) return false;
    shown = now;
    return true;
  }
};

Progress bar(std::string label) {
  return [state = std::make_shared<State>(), label = std::move(label)](std::uint64_t done, std::uint64_t total) {
    if (done >= total) {
      std::fputs("\r\x1b[K", stderr);
      return;
    }
    if (!state->due(std::chrono::milliseconds(100))) return;
    const double rate = state->rate(done);
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(share * 24);
    const auto left = static_cast<std::uint64_t>(static_cast<double>(total - done) / std::max(rate, 1.0));
    const std::string line =
        fmt::format("\r\x1b[K{} [{:=<{}}{:{}}] {:3.0f} %  {}/s  {}:{:02} left", label, "", filled, "", 24 - filled,
                    share * 100, human_size(static_cast<std::uint64_t>(rate)), left / 60, left % 60);
    std::fputs(line.c_str(), stderr);
  };
}

Progress json_lines(std::string label) {
  return [state = std::make_shared<State>(), label = std::move(label)](std::uint64_t done, std::uint64_t total) {
    const bool last = done >= total && done != state->shown_bytes;
    if (!state->due(std::chrono::seconds(1)) && !last) return;
    state->shown_bytes = done;
    const std::string line = fmt::format(
        "{{\"schema\": 1, \"progress\": \"{}\", \"done\": {}, \"total\": {}, \"rate\": {:.0f}, "
        "\"seconds\": {:.3f}}}\n",
        label, done, total, state->rate(done), state->seconds());
    // One write, so that a line is never mixed with another; nobody reading stderr is no reason to stop.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  };
}

}  // namespace

Progress progress_bar(const Globals& globals, std::string label) {
  if (globals.progress == "json") return json_lines(std::move(label));
  const bool shown = globals.progress == "auto" && !globals.quiet && !globals.json && ::isatty(STDERR_FILENO) == 1;
  return shown ? bar(std::move(label)) : nullptr;
}

}  // namespace wconv::tool
