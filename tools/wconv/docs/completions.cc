// Completions of bash, zsh and fish.
#include <fmt/format.h>

#include "manual.h"

namespace wconv::tool {
namespace {

std::vector<std::string> command_names(const Manual& manual) {
  std::vector<std::string> names;
  for (const CommandText& command : manual.commands) names.push_back(command.name);
  return names;
}

std::string all_names(const std::vector<OptionText>& options) {
  std::vector<std::string> names;
  for (const OptionText& option : options) names.push_back(joined(option.names, " "));
  return joined(names, " ");
}

// A case for the word before the cursor where that takes a value.
std::string bash_values(const std::vector<OptionText>& options) {
  std::string text;
  for (const OptionText& option : options) {
    if (option.value.empty()) continue;
    const std::string action = option.files           ? "_wconv_files"
                               : option.words.empty() ? ":"
                                                      : fmt::format("_wconv_words \"{}\"", joined(option.words, " "));
    text += fmt::format("        {}) {}; return ;;\n", joined(option.names, " | "), action);
  }
  return text;
}

std::string zsh_quoted(std::string text) {
  for (const std::string_view c : {"\\", "[", "]", ":"}) text = replaced(text, c, "\\" + std::string(c));
  return replaced(text, "'", "'\\''");
}

std::string zsh_option(const OptionText& option) {
  std::string value;
  if (!option.value.empty()) {
    const std::string action = option.files           ? "_files"
                               : option.words.empty() ? ""
                                                      : "(" + joined(option.words, " ") + ")";
    value = fmt::format(":{}:{}", zsh_quoted(option.value), action);
  }
  std::string text;
  for (const std::string& name : option.names) {
    const std::string mark = option.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    const std::string before = option.many ? "*" : "(" + joined(option.names, " ") + ")";
    text += fmt::format(" \\\n      '{}{}{}[{}]{}'", before, name, mark, zsh_quoted(option.help), value);
  }
  return text;
}

std::string zsh_options(const std::vector<OptionText>& options) {
  std::string text;
  for (const OptionText& option : options) text += zsh_option(option);
  return text;
}

std::string fish_quoted(std::string text) {
  return "'" + replaced(replaced(std::move(text), "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const OptionText& option, const std::string& condition) {
  std::string text = "complete -c wconv" + condition;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.files) {
    text += " -r -F";
  } else if (!option.words.empty()) {
    text += " -x -a " + fish_quoted(joined(option.words, " "));
  } else if (!option.value.empty()) {
    text += " -x";
  }
  return text + " -d " + fish_quoted(option.help) + "\n";
}

}  // namespace

std::string bash_completion(const Manual& manual) {
  const std::string names = joined(command_names(manual), " ");
  std::string text = R"(# bash completion for wconv
_wconv_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_wconv_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
_wconv() {
  local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb='' word
  COMPREPLY=()
  if [[ $cur == '=' ]]; then
    cur=''
  elif [[ $before == '=' && $COMP_CWORD -ge 2 ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
)";
  text +=
      fmt::format("    case $word in {}) verb=$word; break ;; esac\n  done\n", joined(command_names(manual), " | "));
  text +=
      "  case $before in\n" + replaced(bash_values(manual.options), "        ", "    ") + "  esac\n  case $verb in\n";
  for (const CommandText& command : manual.commands) {
    text += fmt::format("    {})\n      case $before in\n{}      esac\n", command.name, bash_values(command.options));
    text += fmt::format("      if [[ $cur == -* ]]; then _wconv_words \"{} {}\"; else _wconv_files; fi ;;\n",
                        all_names(command.options), all_names(manual.options));
  }
  text += fmt::format("    *) _wconv_words \"{} {}\" ;;\n  esac\n}}\ncomplete -F _wconv wconv\n", names,
                      all_names(manual.options));
  return text;
}

std::string zsh_completion(const Manual& manual) {
  std::string text = "#compdef wconv\n_wconv() {\n  local context state state_descr line\n  typeset -A opt_args\n";
  text += "  local -a everywhere commands\n  everywhere=(" + zsh_options(manual.options) + ")\n  commands=(\n";
  for (const CommandText& command : manual.commands)
    text += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.help));
  text += R"(  )
  _arguments -C "${everywhere[@]}" '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe command commands ;;
    argument)
      case $words[1] in
)";
  for (const CommandText& command : manual.commands) {
    text += fmt::format("        {})\n          _arguments \"${{everywhere[@]}}\"{} \\\n      '*:model:_files' ;;\n",
                        command.name, zsh_options(command.options));
  }
  return text + "      esac ;;\n  esac\n}\n_wconv \"$@\"\n";
}

std::string fish_completion(const Manual& manual) {
  const std::string names = joined(command_names(manual), " ");
  std::string text = "# fish completion for wconv\ncomplete -c wconv -f\n";
  for (const CommandText& command : manual.commands)
    text += fmt::format("complete -c wconv -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(command.help));
  text += fmt::format("complete -c wconv -n '__fish_seen_subcommand_from {}' -F\n", names);
  for (const OptionText& option : manual.options) text += fish_option(option, "");
  for (const CommandText& command : manual.commands) {
    for (const OptionText& option : command.options)
      text += fish_option(option, fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name));
  }
  return text;
}

}  // namespace wconv::tool
