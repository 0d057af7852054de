#include "scan/text_scan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/model_path.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

using nlohmann::json;

// Names that templates of chat models have no use for, and that lead to Python's own objects in Jinja or Flask.
constexpr auto kReach = std::to_array<std::string_view>(
    {"lipsum",  "cycler",   "joiner",    "self",     "request", "config",      "url_for",
     "import",  "include",  "extends",   "from",     "popen",   "subprocess",  "get_flashed_messages",
     "eval",    "exec",     "getattr",   "globals",  "mro",     "subclasses",  "builtins",
     "modules", "gi_frame", "f_globals", "cr_frame", "debug",   "func_globals"});

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::size_t end_of_string(std::string_view text, std::size_t begin) {  // of the closing quote, or of the text
  std::size_t end = begin + 1;
  while (end < text.size() && text[end] != text[begin]) end += text[end] == '\\' ? 2 : 1;
  return std::min(end, text.size());
}

// Where `end` ("}}") of an expression stands: neither in a string nor in brackets, as Jinja's lexer has it.
std::size_t end_of_expression(std::string_view text, std::size_t begin, std::string_view end) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (depth <= 0 && text.substr(i).starts_with(end)) return i;
    if (c == '\'' || c == '"') i = end_of_string(text, i);
    depth += c == '(' || c == '[' || c == '{';
    depth -= c == ')' || c == ']' || c == '}';
  }
  return text.size();
}

// Whether what stands at `at` may begin raw text; Jinja also takes the spaces of other scripts.
bool may_begin_raw(std::string_view text, std::size_t at) {
  std::size_t i = at + 2;
  while (i < text.size() && !is_word(text[i]) && text[i] != '%' && text[i] != '{' && text[i] != '}') ++i;
  return text.substr(i).starts_with("raw") && (i + 3 == text.size() || !is_word(text[i + 3]));
}

// Where {% endraw %} stands, or the end of the text.
std::size_t end_of_raw(std::string_view text, std::size_t from) {
  const auto after_space = [&](std::size_t i) {
    return std::min(text.find_first_not_of(" \t\r\n\v\f", i), text.size());
  };
  for (std::size_t at = text.find("{%", from); at != std::string_view::npos; at = text.find("{%", at + 2)) {
    std::size_t i = at + 2;
    i += i < text.size() && (text[i] == '-' || text[i] == '+');
    i = after_space(i);
    if (!text.substr(i).starts_with("endraw")) continue;
    i = after_space(i + 6);
    i += i < text.size() && (text[i] == '-' || text[i] == '+');
    if (text.substr(i).starts_with("%}")) return at;
  }
  return text.size();
}

// One {{ … }} or {% … %} of a template.
class Expression {
 public:
  Expression(std::string_view text, std::uint64_t offset, const std::string& part, Sink& sink)
      : text_(text), offset_(offset), part_(part), sink_(sink) {}

  void scan() {
    for (std::size_t i = 0; i < text_.size();) {
      if (text_[i] == '\'' || text_[i] == '"') {
        i = string_literal(i);
      } else if (is_word(text_[i])) {
        i = word(i);
      } else {
        ++i;
      }
    }
  }

 private:
  void report(std::string_view what, std::string_view why, std::size_t at) const {
    sink_.add(Verdict::kDanger, "chat-template", std::string(what), fmt::format("'{}' {}", printable(what), why), part_,
              offset_ + at);
  }

  std::size_t word(std::size_t begin) const {
    std::size_t end = begin;
    while (end < text_.size() && is_word(text_[end])) ++end;
    const std::string_view name = text_.substr(begin, end - begin);
    const bool after_dot = begin > 0 && text_[begin - 1] == '.';
    if (name.starts_with("__") || (after_dot && name.starts_with('_'))) {
      report(name, "reaches for the insides of Python", begin);
    } else if (name == "attr" && is_filter(begin)) {
      report(name, "gets attributes by names that a template can put together", begin);
    } else if (std::find(kReach.begin(), kReach.end(), name) != kReach.end() && !is_plain(name, begin, end)) {
      report(name, "leads a template out of its data", begin);
    }
    return end;
  }

  bool is_filter(std::size_t at) const { return last_before(at) == '|'; }

  // The last character before `at` that is no white space; 0: none.
  char last_before(std::size_t at) const {
    const std::size_t found = text_.substr(0, at).find_last_not_of(" \t\r\n\v\f");
    return found == std::string_view::npos ? '\0' : text_[found];
  }

  // A keyword argument, a key of a mapping (x.config), or a variable that the template itself sets.
  bool is_plain(std::string_view name, std::size_t begin, std::size_t end) const {
    while (end < text_.size() && text_[end] == ' ') ++end;
    const bool assigned = end < text_.size() && text_[end] == '=' && (end + 1 == text_.size() || text_[end + 1] != '=');
    const bool member = begin > 0 && text_[begin - 1] == '.' && (name == "config" || name == "self" || name == "from");
    return assigned || member;
  }

  std::size_t string_literal(std::size_t begin) const {
    const std::size_t end = end_of_string(text_, begin);
    const std::string_view inside = text_.substr(begin + 1, end - begin - 1);
    const bool subscript = last_before(begin) == '[';
    if (inside.starts_with("__") || (subscript && inside.starts_with('_')))
      report(inside, "reaches for the insides of Python", begin);
    if ((subscript || inside.size() < 64) && hides_underscore(inside))
      report(inside, "hides a name behind escapes", begin);
    return end + 1;
  }

  static bool hides_underscore(std::string_view text) {
    for (const std::string_view hidden :
         {"\\x5f", "\\x5F", "\\u005f", "\\u005F", "\\U0000005f", "\\U0000005F", "\\137", "\\N{"}) {
      if (text.find(hidden) != std::string_view::npos) return true;
    }
    return false;
  }

  std::string_view text_;
  std::uint64_t offset_;
  const std::string& part_;
  Sink& sink_;
};

constexpr std::uint64_t kMaxJson = 256ull * 1024 * 1024;  // tokenizer.json of large vocabularies: 30 MB
constexpr std::size_t kMaxNesting = 500;                  // Python's own json gives up at a thousand
constexpr std::size_t kMaxNamed = 10'000;                 // files that an index names
constexpr std::size_t kMaxLabel = 200;                    // bytes of the keys that lead to a template

// At most `bytes` of UTF-8, and no part of a character.
std::string_view beginning(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (text[bytes] & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// Looks at a document while it is read: as a tree, one of many small values takes twenty times its size.
class JsonScan final : public nlohmann::json_sax<json> {
 public:
  explicit JsonScan(Sink& sink) : sink_(sink) {}

  // The files that the document names as an index.
  std::vector<std::string> names() const { return {names_.begin(), names_.end()}; }

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }
  bool number_unsigned(number_unsigned_t) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool binary(binary_t&) override { return other_value(); }
  bool string(string_t& text) override {
    if (is_shard()) name_file(text);
    if (is_template_) scan_template(text, label_, sink_);
    return true;
  }
  bool key(string_t& name) override {
    if (levels_.size() == 1) in_map_ = name == "weight_map";
    if (levels_.size() == 1 && name == "auto_map") {
      sink_.add(Verdict::kNote, "remote-code", "auto_map",
                "names Python code of the repository that transformers runs under trust_remote_code", "auto_map", 0);
    }
    const Level& level = levels_.back();
    label_.resize(level.label_size);
    if (level.is_template && label_.size() < kMaxLabel) label_ += '.';
    label_ += beginning(name, kMaxLabel - std::min(kMaxLabel, label_.size()));
    is_template_ = level.is_template || name.find("template") != std::string::npos;
    return true;
  }
  bool start_object(std::size_t) override { return other_value() && enter(true); }
  bool start_array(std::size_t) override { return other_value() && enter(false); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  struct Level {  // an object or array around
    bool is_object, is_template;
    std::size_t label_size;  // of the keys that lead to it, from the first that says template
  };

  bool is_shard() const { return in_map_ && levels_.size() == 2 && levels_[0].is_object && levels_[1].is_object; }

  bool other_value() {
    if (is_shard()) name_file("");
    return true;
  }

  bool enter(bool is_object) {
    levels_.push_back({is_object, is_template_, is_template_ ? label_.size() : 0});
    if (levels_.size() <= kMaxNesting) return true;
    sink_.add(Verdict::kUnknown, "json", "", "nests too deeply to look into", "", 0);
    return false;
  }

  bool leave() {
    levels_.pop_back();
    is_template_ = !levels_.empty() && levels_.back().is_template;  // of the next item of an array
    label_.resize(levels_.empty() ? 0 : levels_.back().label_size);
    return true;
  }

  void name_file(const std::string& name) {
    try {
      check_relative_path(name, "weight_map");
      if (names_.size() < kMaxNamed || names_.contains(name)) {
        names_.insert(name);
      } else {
        sink_.add(Verdict::kUnknown, "json", "", "names too many files to look into all of them", "weight_map", 0);
      }
    } catch (const Error& error) {
      sink_.add(Verdict::kDanger, "path", json(name).dump(-1, ' ', true), error.message(), "weight_map", 0);
    }
  }

  Sink& sink_;
  std::vector<Level> levels_;
  std::string label_;         // keys that lead to the value
  bool is_template_ = false;  // the value, or what it holds
  bool in_map_ = false;
  std::set<std::string> names_;
};

// Python writes and reads NaN, Infinity and -Infinity, as trainer_state.json has them, where JSON has no such numbers.
void replace_python_numbers(std::string& text) {
  constexpr auto kNumbers = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"NaN", "0  "}, {"-Infinity", "0        "}, {"Infinity", "0       "}});
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') i = end_of_string(text, i);
    for (const auto& [name, number] : kNumbers) {
      if (std::string_view(text).substr(std::min(i, text.size())).starts_with(name))
        text.replace(i, name.size(), number);
    }
  }
}

}  // namespace

void scan_template(std::string_view text, const std::string& part, Sink& sink) {
  std::size_t raw_until = 0;
  for (std::size_t at = text.find('{'); at != std::string_view::npos && at + 1 < text.size(); at = text.find('{', at)) {
    const char kind = text[at + 1];
    const bool raw = at < raw_until;
    if (kind == '#' && !raw) {
      const std::size_t end = text.find("#}", at + 2);
      if (end == std::string_view::npos) return;
      at = end + 2;
      continue;
    }
    if (kind != '{' && kind != '%') {
      ++at;
      continue;
    }
    const std::size_t end = end_of_expression(text, at + 2, kind == '{' ? "}}" : "%}");
    Expression(text.substr(at + 2, end - at - 2), at + 2, part, sink).scan();
    if (raw && !sink.spend(end - at)) return;
    if (!raw && kind == '%' && may_begin_raw(text, at)) raw_until = end_of_raw(text, end);
    at = raw ? at + 2 : end;  // raw text is in no order: a quote in it may have no end
  }
}

std::vector<std::string> scan_json(const std::shared_ptr<const File>& file, Sink& sink) {
  const auto refuse = [&](const char* why) {
    sink.add(Verdict::kUnknown, "json", "", why, "", 0);
    return std::vector<std::string>();
  };
  if (file->size() > kMaxJson) return refuse("is too large to look into");
  std::string text(file->size(), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  if (!json::accept(text)) replace_python_numbers(text);
  if (!json::accept(text)) return refuse("is called JSON and is none; it was not looked into");
  JsonScan scan(sink);
  json::sax_parse(text, &scan);
  return scan.names();
}

}  // namespace wconv::scan
