#include "wconv/error.h"

#include <array>

namespace wconv {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_status;
};

constexpr std::array<CodeRow, 9> kCodes = {{
    {ErrorCode::kMismatch, "mismatch", 1},
    {ErrorCode::kUsage, "usage", 2},
    {ErrorCode::kCorrupt, "corrupt", 65},
    {ErrorCode::kUnsupported, "unsupported", 65},
    {ErrorCode::kMissing, "missing", 66},
    {ErrorCode::kInternal, "internal", 70},
    {ErrorCode::kIo, "io", 74},
    {ErrorCode::kBusy, "busy", 75},
    {ErrorCode::kInterrupted, "interrupted", 130},
}};

const CodeRow& row(ErrorCode code) {
  for (const CodeRow& candidate : kCodes) {
    if (candidate.code == code) return candidate;
  }
  return kCodes[5];
}

}  // namespace

std::string_view error_code_name(ErrorCode code) { return row(code).name; }
int exit_status(ErrorCode code) { return row(code).exit_status; }

Error::Error(ErrorCode code, std::string message)
    : std::runtime_error(message), code_(code), message_(std::move(message)) {
  compose();
}

Error& Error::in_file(std::string_view path) {
  if (!file_) file_ = std::string(path);
  compose();
  return *this;
}

Error& Error::in_tensor(std::string_view name) {
  if (!tensor_) tensor_ = std::string(name);
  compose();
  return *this;
}

Error& Error::at(std::uint64_t offset_bytes) {
  if (!offset_) offset_ = offset_bytes;
  compose();
  return *this;
}

void Error::compose() {
  text_.clear();
  if (file_) text_ += printable(*file_) + ": ";
  if (tensor_) text_ += "tensor '" + printable(*tensor_) + "': ";
  text_ += printable(message_);
  if (offset_) text_ += fmt::format(" (at byte {})", *offset_);
}

namespace {

// Length of the well-formed UTF-8 sequence at the start of `text` (RFC 3629), or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// C1 controls (U+0080–U+009F), line separators and the bidirectional overrides can repaint a terminal line.
bool hidden_control(std::string_view sequence) {
  if (sequence.size() == 2) return sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
  if (sequence.size() != 3 || sequence[0] != '\xE2') return false;
  const auto middle = static_cast<unsigned char>(sequence[1]), last = static_cast<unsigned char>(sequence[2]);
  if (middle == 0x80) return last == 0x8E || last == 0x8F || (last >= 0xA8 && last <= 0xAE);
  return middle == 0x81 && last >= 0xA6 && last <= 0xA9;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    const std::size_t used = length == 0 ? 1 : length;
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (length == 0 || c < 0x20 || c == 0x7F || hidden_control(text.substr(0, length))) {
      for (std::size_t i = 0; i < used; ++i) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    } else {
      out += text.substr(0, used);
    }
    text.remove_prefix(used);
  }
  return out;
}

}  // namespace wconv
