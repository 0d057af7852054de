// A running wconv with chosen standard streams, for tests of pipes, terminals and signals.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <vector>

namespace wconv::test {

class Process {
 public:
  // Starts wconv; -1 stands for /dev/null. The environment is that of the test and `environment`.
  Process(std::vector<std::string> arguments, int out, int err, std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), WCONV_BINARY);
    for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    redirect(actions, out, STDOUT_FILENO);
    redirect(actions, err, STDERR_FILENO);
    const int error =
        ::posix_spawn(&pid_, WCONV_BINARY, &actions, nullptr, pointers(arguments).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start wconv");
  }
  ~Process() {
    if (pid_ > 0) wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  bool running() {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

  // The exit status, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static void redirect(posix_spawn_file_actions_t& actions, int descriptor, int target) {
    if (descriptor >= 0) {
      posix_spawn_file_actions_adddup2(&actions, descriptor, target);
    } else {
      posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_WRONLY, 0);
    }
  }
  static std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> out;
    for (std::string& text : strings) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  }
  pid_t pid_ = -1;
};

// A pipe whose ends the spawned program does not inherit.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::string drain() {  // all that is written until the writers have closed it
    close_end(1);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  }
  int ends[2] = {-1, -1};
};

}  // namespace wconv::test
