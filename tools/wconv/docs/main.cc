// wconv-docs man|markdown|bash|zsh|fish: writes one of the texts that are made from the options of wconv.
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "manual.h"

namespace {

struct Text {
  std::string_view name;
  std::string (*make)(const wconv::tool::Manual&);
};
constexpr auto kTexts = std::to_array<Text>({
    {"man", wconv::tool::man_page},
    {"markdown", wconv::tool::markdown_page},
    {"bash", wconv::tool::bash_completion},
    {"zsh", wconv::tool::zsh_completion},
    {"fish", wconv::tool::fish_completion},
});

}  // namespace

int main(int argc, char** argv) {
  try {
    wconv::tool::Globals globals;
    const auto line = wconv::tool::make_command_line(globals);
    const auto manual = wconv::tool::make_manual(line, WCONV_VERSION);
    for (const Text& text : kTexts) {
      if (argc != 2 || text.name != argv[1]) continue;
      std::fputs(text.make(manual).c_str(), stdout);
      return std::fflush(stdout) == 0 ? 0 : 74;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wconv-docs: %s\n", error.what());
    return 70;
  }
  std::fputs("usage: wconv-docs man|markdown|bash|zsh|fish\n", stderr);
  return 2;
}
