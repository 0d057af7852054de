#include "manual.h"

#include <fmt/format.h>

#include <array>

#include "wconv/dtype.h"
#include "wconv/error.h"

namespace wconv::tool {
namespace {

struct ValueKind {
  std::string_view name = {};
  bool files = false;
  std::string_view words = {};  // separated by spaces
};

// What the values of options are called. Words that CLI11 checks itself are taken from it.
constexpr auto kValues = std::to_array<ValueKind>({
    {"FORM"},
    {"FORMAT", false, "safetensors pytorch gguf onnx hf"},
    {"GLOB"},
    {"GLOB=T"},
    {"KEY"},
    {"KEY=PATH"},
    {"KEY=VALUE"},
    {"MODEL", true},
    {"N"},
    {"OUT", true},
    {"OUT.sarif", true},
    {"P"},
    {"PATH"},
    {"REGEX=REPLACEMENT"},
    {"SIZE"},
    {"T"},
    {"WHAT"},
    {"WHEN"},
    {"X"},
    {"zstd[:LEVEL]", false, "zstd"},
});

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
  }
  return parts;
}

// "WHEN:{auto,always,never}": what CLI11 checks.
std::vector<std::string> checked_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find(":{"), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return split(std::string_view(type).substr(open + 2, close - open - 2), ',');
}

std::vector<std::string> dtype_words() {
  std::vector<std::string> words;
  for (const DTypeInfo& dtype : all_dtypes()) {
    if (dtype.kind != DTypeKind::kFloat || !dtype.whole_bytes()) continue;
    std::string word(dtype.name);
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    words.push_back(std::move(word));
  }
  return words;
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.help = replaced(option.get_description(), "\n", " ");
  text.value = value_name(option);
  text.required = option.get_required();
  text.many = takes_many(option);
  text.words = text.value == "T" ? dtype_words() : checked_words(option);
  if (text.help.empty()) fail(ErrorCode::kInternal, "{} has no help", text.names[0]);
  if (text.value.empty()) return text;
  for (const ValueKind& kind : kValues) {
    if (kind.name != text.value) continue;
    text.files = kind.files;
    if (text.words.empty()) text.words = split(kind.words, ' ');
    return text;
  }
  fail(ErrorCode::kInternal, "{}: docs/manual.cc does not know the value {}", text.names[0], text.value);
}

CommandText command_text(const CLI::App& app) {
  CommandText text{app.get_name(), app.get_description(), replaced(app.get_footer(), "\n", " "), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      text.arguments.push_back(
          {option->get_name(), option->get_description(), option->get_required(), takes_many(*option)});
    } else if (option->get_group() != kEveryCommand && option != app.get_help_ptr()) {
      text.options.push_back(option_text(*option));
    }
  }
  return text;
}

}  // namespace

std::string CommandText::usage() const {
  std::string text = "wconv " + name + " [OPTIONS]";
  for (const ArgumentText& argument : arguments) {
    const std::string word = argument.name + (argument.many ? "..." : "");
    text += argument.required ? " " + word : " [" + word + "]";
  }
  for (const OptionText& option : options) {
    if (option.required) text += " " + option.names[0] + " " + option.value;
  }
  return text;
}

Manual make_manual(const CommandLine& line, std::string version) {
  const CLI::App& app = *line.app;
  Manual manual{std::move(version), app.get_description(), replaced(app.get_footer(), "\n", " "), {}, {}};
  for (const CLI::Option* option : app.get_options()) manual.options.push_back(option_text(*option));
  for (const Verb& verb : line.verbs) manual.commands.push_back(command_text(*verb.app));
  return manual;
}

std::string synopsis(const OptionText& option) {
  return joined(option.names, ", ") + (option.value.empty() ? "" : " " + option.value);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace wconv::tool
