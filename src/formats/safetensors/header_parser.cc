#include "formats/safetensors/header_parser.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv::safetensors {
namespace {

constexpr std::size_t kMaxDepth = 128;  // of values in fields that we ignore; serde_json's limit
constexpr std::size_t kMaxRank = 64;    // torch and numpy have no more dimensions; a header could claim millions

// One pass over the header's bytes in chunks.
class HeaderText {
 public:
  HeaderText(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end)
      : file_(std::move(file)), position_(begin), end_(end) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t end() const { return end_; }
  char current() {
    if (position_ >= chunk_end_) {
      chunk_.resize(std::min<std::uint64_t>(64 * 1024, end_ - position_));
      file_->read(position_, chunk_);
      chunk_end_ = position_ + chunk_.size();
    }
    const char c = static_cast<char>(chunk_[chunk_.size() - (chunk_end_ - position_)]);
    // nlohmann's lexer takes a NUL for the end of the text and would ignore what follows.
    if (c == '\0') fail_at(position_, ErrorCode::kCorrupt, "the JSON header holds a NUL byte");
    return c;
  }
  void advance() { ++position_; }

 private:
  std::shared_ptr<const File> file_;
  std::uint64_t position_, end_, chunk_end_ = 0;
  std::vector<std::byte> chunk_;
};

struct HeaderIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  HeaderText* text = nullptr;  // null: the end
  char operator*() const { return text->current(); }
  HeaderIterator& operator++() {
    text->advance();
    return *this;
  }
  HeaderIterator operator++(int) { return ++*this; }
  bool operator==(const HeaderIterator& other) const { return done() == other.done(); }
  bool operator!=(const HeaderIterator& other) const { return !(*this == other); }
  bool done() const { return !text || text->position() >= text->end(); }
};

// Receives JSON events. Levels: 0 before {, 1 among the tensor names, 2 inside a tensor or __metadata__, 3 inside shape
// or data_offsets; deeper or in an unknown field: ignored.
class Events {
 public:
  using string_t = std::string;
  Events(Header& header, const HeaderText& text) : header_(header), text_(text) {}

  bool null() {
    if (level_ == 1 && in_metadata_) return in_metadata_ = false, true;
    return scalar("null");
  }
  bool boolean(bool) { return scalar("a boolean"); }
  bool number_integer(std::int64_t) { return scalar("a negative number"); }
  bool number_float(double, const std::string&) { return scalar("a number that is no 64-bit integer"); }
  bool binary(std::vector<std::uint8_t>&) { return scalar("binary"); }

  bool number_unsigned(std::uint64_t number) {
    if (ignoring()) return true;
    if (level_ != 3) return scalar("a number");
    auto& list = field_ == "shape" ? entry_.info.shape : offsets_;
    if (list.size() == kMaxRank) refuse("tensor '{}' field '{}' holds more than {} numbers", name_, field_, kMaxRank);
    list.push_back(number);
    return true;
  }

  bool string(std::string& value) {
    if (ignoring()) return true;
    if (level_ == 2 && in_metadata_) return header_.metadata.emplace_back(field_, std::move(value)), true;
    if (level_ != 2 || field_ != "dtype") return scalar("a string");
    const auto dtype = dtype_from_safetensors(value);
    if (!dtype) refuse("tensor '{}' has the dtype '{}', which safetensors does not define", name_, value);
    entry_.info.dtype = *dtype;
    return true;
  }

  bool key(std::string& value) {
    if (ignoring()) return true;
    if (level_ == 1) {
      in_metadata_ = value == "__metadata__";
      if (in_metadata_ && std::exchange(had_metadata_, true)) refuse("duplicate key '__metadata__'");
      name_ = std::move(value);
      return true;
    }
    field_ = std::move(value);
    if (in_metadata_ || !known_field()) return true;
    if (std::find(fields_.begin(), fields_.end(), field_) != fields_.end()) {
      refuse("tensor '{}' has a duplicate field '{}'", name_, field_);
    }
    fields_.push_back(field_);
    return true;
  }

  bool start_object(std::size_t) {
    if (ignoring() || (level_ == 2 && !in_metadata_ && !known_field())) return ignore_deeper();
    if (level_ >= 2) scalar("an object");
    if (++level_ == 2 && !in_metadata_) {
      entry_ = Entry{};
      entry_.info.name = name_;
      fields_.clear();
      offsets_.clear();
    }
    return true;
  }

  bool end_object() {
    if (ignoring()) return --ignored_, true;
    if (level_ == 2 && !in_metadata_) finish_entry();
    if (level_ == 2) in_metadata_ = false;
    --level_;
    return true;
  }

  bool start_array(std::size_t) {
    if (ignoring() || (level_ == 2 && !in_metadata_ && !known_field())) return ignore_deeper();
    if (level_ != 2 || in_metadata_ || field_ == "dtype") scalar("an array");
    level_ = 3;
    return true;
  }

  bool end_array() {
    if (ignoring()) return --ignored_, true;
    level_ = 2;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string_view why = error.what();
    if (const auto colon = why.find("; last read"); colon != std::string_view::npos) why = why.substr(0, colon);
    if (const auto bracket = why.find("] "); bracket != std::string_view::npos) why = why.substr(bracket + 2);
    refuse("the header is not JSON: {}", why);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(text_.position(), ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
  }

  bool ignoring() const { return ignored_ > 0; }
  bool ignore_deeper() {
    if (++ignored_ > kMaxDepth) refuse("the header nests more than {} levels", kMaxDepth);
    return true;
  }
  bool known_field() const { return field_ == "dtype" || field_ == "shape" || field_ == "data_offsets"; }

  // A scalar (or a container) where it must not be.
  bool scalar(std::string_view what) const {
    if (ignoring()) return true;
    if (level_ == 0) refuse("the header is {}, not an object", what);
    if (in_metadata_ && level_ == 1) refuse("'__metadata__' is {}; only an object of strings is allowed", what);
    if (in_metadata_) refuse("'__metadata__' key '{}' is {}; only strings are allowed", field_, what);
    if (level_ == 1) refuse("tensor '{}' is {}, not an object", name_, what);
    if (level_ == 2 && !known_field()) return true;
    const std::string_view allowed = field_ == "dtype" ? "a string" : "an array of integers from 0 to 2^64-1";
    refuse("tensor '{}' field '{}' holds {}; only {} is allowed", name_, field_, what, allowed);
  }

  void finish_entry() {
    for (const std::string_view field : {"dtype", "shape", "data_offsets"}) {
      if (std::find(fields_.begin(), fields_.end(), field) == fields_.end()) {
        refuse("tensor '{}' has no field '{}'", name_, field);
      }
    }
    if (offsets_.size() != 2) refuse("tensor '{}' has {} data_offsets, not 2", name_, offsets_.size());
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    entry_.info.shape.shrink_to_fit();
    header_.entries.push_back(std::move(entry_));
  }

  Header& header_;
  const HeaderText& text_;
  int level_ = 0;
  std::size_t ignored_ = 0;  // depth below a field that nobody asked for
  bool in_metadata_ = false, had_metadata_ = false;
  std::string name_, field_;
  std::vector<std::string> fields_;  // of the tensor, without those that nobody asked for
  std::vector<std::uint64_t> offsets_;
  Entry entry_;
};

template <typename List, typename Key>
void refuse_duplicates(const List& list, const Key& key, std::string_view what) {
  std::vector<std::size_t> order(list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(list[a]) < key(list[b]); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (key(list[order[i - 1]]) != key(list[order[i]])) continue;
    fail(ErrorCode::kCorrupt, "duplicate {} '{}' in the header", what, key(list[order[i]]));
  }
}

}  // namespace

Header parse_header(const std::shared_ptr<const File>& file) {
  if (file->size() < 8) {
    fail(ErrorCode::kCorrupt, "{} bytes is too small for a safetensors file, which begins with an 8-byte length",
         file->size());
  }
  ByteReader reader(file);
  const std::uint64_t size = reader.u64("header length");
  if (size > kMaxHeaderBytes) {
    fail_at(0, ErrorCode::kCorrupt, "header length {} is over the format's limit of {}", size, kMaxHeaderBytes);
  }
  if (size > reader.remaining()) {
    fail_at(0, ErrorCode::kCorrupt, "header length {} is more than the {} bytes that follow: truncated download?", size,
            reader.remaining());
  }
  Header header;
  header.data_begin = 8 + size;
  if (size == 0 || reader.u8("header") != '{') fail_at(8, ErrorCode::kCorrupt, "the header does not begin with '{{'");
  HeaderText text(file, 8, 8 + size);
  Events events(header, text);
  nlohmann::json::sax_parse(HeaderIterator{&text}, HeaderIterator{}, &events);
  refuse_duplicates(header.entries, [](const Entry& entry) -> const std::string& { return entry.info.name; }, "tensor");
  refuse_duplicates(header.metadata, [](const auto& entry) -> const std::string& { return entry.first; },
                    "__metadata__ key");
  return header;
}

}  // namespace wconv::safetensors
