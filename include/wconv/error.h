// The one exception type of wconv and its closed set of codes.
//
// A message names what was found, what is allowed and what to do; file, tensor and byte offset are kept
// as fields so that each layer adds only what it alone knows. Exceptions of third-party libraries stop at
// the first line of ours that calls them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace wconv {

// Coarse enough to choose an exit status (see exit_status). A new code needs an ADR.
enum class ErrorCode {
  kMismatch,     // compared and different: 1
  kUsage,        // wrong options: 2
  kCorrupt,      // input damaged or unsafe: 65
  kUnsupported,  // input sound, but not something that can be done: 65
  kMissing,      // input is not there (a Git LFS pointer too): 66
  kInternal,     // our bug: 70
  kIo,           // read, write, sync or rename failed; disk full; input changed while it was read: 74
  kBusy,         // another run is writing the same output; try again: 75
  kInterrupted,  // SIGHUP, SIGINT or SIGTERM: 129, 130 or 143
};

// "corrupt", "usage", … : the `code` of a JSON error document.
std::string_view error_code_name(ErrorCode code);

// Exit status after sysexits. kInterrupted gives 130; the tool adds the signal itself.
int exit_status(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message);

  // Each sets a field that is not yet set: the innermost layer knows best.
  Error& in_file(std::string_view path);
  Error& in_tensor(std::string_view name);
  Error& at(std::uint64_t offset_bytes);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::optional<std::string>& file() const { return file_; }
  const std::optional<std::string>& tensor() const { return tensor_; }
  const std::optional<std::uint64_t>& offset() const { return offset_; }

  // One line: "FILE: tensor 'NAME': MESSAGE (at byte OFFSET)". Control characters are escaped.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();
  ErrorCode code_;
  std::string message_, text_;
  std::optional<std::string> file_, tensor_;
  std::optional<std::uint64_t> offset_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// As fail, with the byte offset in the file.
template <typename... Args>
[[noreturn]] void fail_at(std::uint64_t offset_bytes, ErrorCode code, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...)).at(offset_bytes);
}

// Control characters, DEL and bytes that are not UTF-8 become \n, \t or \xNN: for terminals and messages.
std::string printable(std::string_view text);

// Well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

}  // namespace wconv
