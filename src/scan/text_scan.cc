#include "scan/text_scan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
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

  bool is_filter(std::size_t at) const {
    while (at > 0 && text_[at - 1] == ' ') --at;
    return at > 0 && text_[at - 1] == '|';
  }

  // A keyword argument, a key of a mapping (x.config), or a variable that the template itself sets.
  bool is_plain(std::string_view name, std::size_t begin, std::size_t end) const {
    while (end < text_.size() && text_[end] == ' ') ++end;
    const bool assigned = end < text_.size() && text_[end] == '=' && (end + 1 == text_.size() || text_[end + 1] != '=');
    const bool member = begin > 0 && text_[begin - 1] == '.' && (name == "config" || name == "self" || name == "from");
    return assigned || member;
  }

  std::size_t string_literal(std::size_t begin) const {
    const char quote = text_[begin];
    std::size_t end = begin + 1;
    bool escape = false;
    while (end < text_.size() && text_[end] != quote) {
      if (text_[end] == '\\' && end + 1 < text_.size()) {
        escape = escape || text_[end + 1] == 'x' || text_[end + 1] == 'u' || text_[end + 1] == 'U' ||
                 text_[end + 1] == 'N' || std::isdigit(static_cast<unsigned char>(text_[end + 1]));
        ++end;
      }
      ++end;
    }
    const std::string_view inside = text_.substr(begin + 1, std::min(end, text_.size()) - begin - 1);
    const bool subscript = begin > 0 && text_[begin - 1] == '[';
    if (inside.starts_with("__") || (subscript && inside.starts_with('_')))
      report(inside, "reaches for the insides of Python", begin);
    if (escape && (subscript || inside.size() < 64) && hides_underscore(inside))
      report(inside, "hides a name behind escapes", begin);
    return end + 1;
  }

  static bool hides_underscore(std::string_view text) {
    for (const std::string_view hidden : {"\\x5f", "\\x5F", "\\u005f", "\\u005F", "\\U0000005f", "\\137", "LOW LINE"}) {
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

void scan_values(const json& value, const std::string& key, Sink& sink) {
  if (value.is_string() && key.find("template") != std::string::npos) {
    scan_template(value.get_ref<const std::string&>(), key, sink);
  } else if (value.is_object()) {
    for (const auto& [name, inner] : value.items())
      scan_values(inner, key.find("template") != std::string::npos ? key + "." + name : name, sink);
  } else if (value.is_array() && value.size() < 1000) {
    for (const json& inner : value) scan_values(inner, key, sink);
  }
}

}  // namespace

void scan_template(std::string_view text, const std::string& part, Sink& sink) {
  for (std::size_t at = text.find('{'); at != std::string_view::npos && at + 1 < text.size(); at = text.find('{', at)) {
    const char kind = text[at + 1];
    if (kind == '#') {
      const std::size_t end = text.find("#}", at + 2);
      if (end == std::string_view::npos) return;
      at = end + 2;
      continue;
    }
    if (kind != '{' && kind != '%') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find(kind == '{' ? "}}" : "%}", at + 2), text.size());
    Expression(text.substr(at + 2, end - at - 2), at + 2, part, sink).scan();
    at = end;
  }
}

void scan_json(const std::shared_ptr<const File>& file, Sink& sink) {
  if (file->size() > kMaxJson) return sink.add(Verdict::kUnknown, "json", "", "is too large to look into", "", 0);
  std::string text(file->size(), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return sink.add(Verdict::kNote, "json", "", "is no JSON", "", 0);
  scan_values(document, "", sink);
  if (!document.is_object()) return;
  if (const auto map = document.find("auto_map"); map != document.end()) {
    sink.add(Verdict::kNote, "remote-code", "auto_map",
             "names Python code of the repository that transformers runs under trust_remote_code", "auto_map", 0);
  }
  if (const auto map = document.find("weight_map"); map != document.end() && map->is_object()) {
    for (const auto& [tensor, shard] : map->items()) {
      try {
        check_relative_path(shard.is_string() ? shard.get<std::string>() : "", "weight_map");
      } catch (const Error& error) {
        sink.add(Verdict::kDanger, "path", shard.dump(-1, ' ', true, json::error_handler_t::replace), error.message(),
                 "weight_map", 0);
      }
    }
  }
}

}  // namespace wconv::scan
