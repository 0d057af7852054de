#include "formats/safetensors/json_scanner.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "core/utf8.h"
#include "wconv/error.h"

namespace wconv::safetensors {
namespace {

constexpr std::uint64_t kWindow = 64 * 1024;
constexpr std::size_t kMaxDepth = 128;    // serde_json's limit
constexpr std::size_t kNumberShown = 40;  // characters

bool is_digit(int c) { return c >= '0' && c <= '9'; }

}  // namespace

bool JsonScanner::refill() {
  window_begin_ += window_.size();
  at_ = 0;
  window_.resize(std::min(kWindow, end_ - window_begin_));
  file_->read(window_begin_, std::as_writable_bytes(std::span(window_)));
  return !window_.empty();
}

void JsonScanner::refuse(std::string_view expected) {
  const int found = peek();
  const std::string what = found < 0                      ? "the header ends"
                           : found > 0x20 && found < 0x7F ? fmt::format("'{}' stands", static_cast<char>(found))
                                                          : fmt::format("byte 0x{:02x} stands", found);
  fail_at(position(), ErrorCode::kCorrupt, "the header is not JSON: {} where {} should be", what, expected);
}

int JsonScanner::next() {
  int c = peek();
  while (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
    skip_character();
    c = peek();
  }
  return c;
}

std::string_view JsonScanner::kind() {
  const int c = next();
  if (c == '"') return "a string";
  if (c == '{') return "an object";
  if (c == '[') return "an array";
  if (c == 't' || c == 'f') return "a boolean";
  if (c == 'n') return "null";
  if (c == '-' || is_digit(c)) return "a number";
  refuse("a value");
}

void JsonScanner::expect(char character) {
  if (next() != character) refuse(std::string{'\'', character, '\''});
  skip_character();
}

void JsonScanner::literal(std::string_view word) {
  next();
  for (const char c : word) {
    if (peek() != c) refuse(word);
    skip_character();
  }
}

bool JsonScanner::take_null() {
  if (next() != 'n') return false;
  literal("null");
  return true;
}

std::string JsonScanner::string(std::uint64_t max_bytes) {
  expect('"');
  const std::uint64_t begin = position();
  std::string out;
  while (true) {
    if (peek() < 0) refuse("the end of a string");
    const std::string_view ahead = std::string_view(window_).substr(at_);
    const auto stop = std::find_if(ahead.begin(), ahead.end(), [](char c) {
      return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
    });
    const auto plain = static_cast<std::size_t>(stop - ahead.begin());
    out += ahead.substr(0, plain);
    if (out.size() > max_bytes) fail_at(begin, ErrorCode::kCorrupt, "a name has more than {} bytes", max_bytes);
    at_ += plain;
    if (stop == ahead.end()) continue;
    if (*stop != '"' && *stop != '\\') refuse("a character of a string, or its escape,");
    skip_character();
    if (*stop == '"') break;
    escape(out);
  }
  if (!is_utf8(out))
    fail_at(begin, ErrorCode::kCorrupt, "the header is not JSON: the string '{}' is not UTF-8", out.substr(0, 100));
  return out;
}

void JsonScanner::escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const int c = peek();
  if (c > 0 && kLetters.find(static_cast<char>(c)) != std::string_view::npos) {
    out += kMeanings[kLetters.find(static_cast<char>(c))];
    return skip_character();
  }
  if (c != 'u') refuse("an escape");
  skip_character();
  std::uint32_t code = hex4();
  if (code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
    for (const char half : {'\\', 'u'}) {
      if (peek() != half) refuse("the second half of a surrogate pair");
      skip_character();
    }
    const std::uint32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) refuse("the second half of a surrogate pair");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code <= 0xDFFF) {
    refuse("the first half of a surrogate pair");
  }
  append_utf8(out, code);
}

std::uint32_t JsonScanner::hex4() {
  char text[4];
  for (char& c : text) {
    if (peek() < 0) refuse("four hexadecimal digits");
    c = static_cast<char>(peek());
    skip_character();
  }
  std::uint32_t code = 0;
  if (std::from_chars(text, text + 4, code, 16).ptr != text + 4) refuse("four hexadecimal digits");
  return code;
}

void JsonScanner::digits(std::string* text) {
  if (!is_digit(peek())) refuse("a digit");
  for (int c = peek(); is_digit(c); c = peek()) {
    if (text && text->size() < kNumberShown) *text += static_cast<char>(c);
    skip_character();
  }
}

void JsonScanner::number(std::string* text) {
  const auto keep = [&](int c) {
    if (text) *text += static_cast<char>(c);
    skip_character();
  };
  if (next() == '-') keep('-');
  if (peek() == '0') {
    keep('0');
  } else {
    digits(text);
  }
  if (peek() == '.') {
    keep('.');
    digits(text);
  }
  if (peek() != 'e' && peek() != 'E') return;
  keep(peek());
  if (peek() == '+' || peek() == '-') keep(peek());
  digits(text);
}

bool JsonScanner::unsigned_integer(std::uint64_t& out, std::string& text) {
  text.clear();
  number(&text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

void JsonScanner::skip_value(std::size_t depth) {
  if (depth > kMaxDepth) fail_at(position(), ErrorCode::kCorrupt, "the header nests more than {} levels", kMaxDepth);
  switch (next()) {
    case '{':
      return object([&](const std::string&) { skip_value(depth + 1); });
    case '[':
      return array([&] { skip_value(depth + 1); });
    case '"':
      string();
      return;
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    default:
      kind();  // refuses what is no value
      return number(nullptr);
  }
}

void JsonScanner::end() {
  if (next() >= 0) refuse("the end of the header");
}

}  // namespace wconv::safetensors
