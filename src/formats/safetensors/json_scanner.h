// JSON values from a range of a file, one after another: memory is one window, and what is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "wconv/file.h"

namespace wconv::safetensors {

// Each method takes the value that comes next, and throws Error(kCorrupt) with the byte offset where the text is not
// JSON (RFC 8259). Not thread-safe.
class JsonScanner {
 public:
  static constexpr std::uint64_t kMaxKey = 64 * 1024;  // bytes of a member's name

  JsonScanner(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end)
      : file_(std::move(file)), window_begin_(begin), end_(end) {}

  std::uint64_t position() const { return window_begin_ + at_; }
  int next();               // the first character of what comes next; -1 at the end
  std::string_view kind();  // of the value that comes next: "a string", "null", …
  bool take_null();         // false: something else comes next
  std::string string(std::uint64_t max_bytes = ~std::uint64_t{0});
  bool unsigned_integer(std::uint64_t& out,
                        std::string& text);  // false, with the number's text: it is not from 0 to 2^64-1
  void skip_value(std::size_t depth = 0);
  void end();  // refuses anything but white space

  // member(key) takes the value.
  template <typename Member>
  void object(const Member& member) {
    list('{', '}', [&] {
      std::string key = string(kMaxKey);
      expect(':');
      member(std::move(key));
    });
  }
  // element() takes one value.
  template <typename Element>
  void array(const Element& element) {
    list('[', ']', element);
  }

 private:
  template <typename Item>
  void list(char open, char close, const Item& item) {
    expect(open);
    if (next() == close) return skip_character();
    while (true) {
      item();
      if (next() == close) return skip_character();
      expect(',');
    }
  }

  bool refill();
  int peek() { return at_ < window_.size() || refill() ? static_cast<unsigned char>(window_[at_]) : -1; }
  void skip_character() { ++at_; }
  void expect(char character);
  void literal(std::string_view word);
  void number(std::string* text);
  void digits(std::string* text);
  void escape(std::string& out);
  std::uint32_t hex4();
  [[noreturn]] void refuse(std::string_view expected);

  std::shared_ptr<const File> file_;
  std::string window_;
  std::uint64_t window_begin_, end_;
  std::size_t at_ = 0;
};

}  // namespace wconv::safetensors
