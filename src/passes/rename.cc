#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <unordered_map>

#include "wconv/error.h"
#include "wconv/file.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

// Names are bytes, so the expression is matched on bytes (UTF mode off) and cannot fail on a name.
class Replacement {
 public:
  Replacement(const std::string& expression, const std::string& replacement)
      : expression_(expression), replacement_(replacement) {
    int code = 0;
    std::size_t at = 0;
    code_.reset(pcre2_compile(bytes(expression), expression.size(), 0, &code, &at, nullptr));
    if (!code_)
      fail(ErrorCode::kUsage, "the expression '{}' is wrong at character {}: {}", printable(expression), at,
           message(code));
    context_.reset(pcre2_match_context_create(nullptr));
    if (!context_) throw std::bad_alloc();
    pcre2_set_match_limit(context_.get(), 1'000'000);
  }

  // Replaces every match.
  std::string apply(const std::string& name) const {
    std::string out(name.size() + replacement_.size() + 64, '\0');
    std::size_t size = out.size();
    int result = substitute(name, out, size);
    if (result == PCRE2_ERROR_NOMEMORY) {  // `size` is what it needs
      out.resize(size);
      result = substitute(name, out, size);
    }
    if (result < 0)
      fail(ErrorCode::kUsage, "renaming '{}' by '{}' to '{}' fails: {}", printable(name), printable(expression_),
           printable(replacement_), message(result));
    out.resize(size);
    return out;
  }

  const std::string& expression() const { return expression_; }

 private:
  static PCRE2_SPTR bytes(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }
  static std::string message(int code) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }
  int substitute(const std::string& name, std::string& out, std::size_t& size) const {
    constexpr std::uint32_t kOptions =
        PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | PCRE2_SUBSTITUTE_UNSET_EMPTY;
    return pcre2_substitute(code_.get(), bytes(name), name.size(), 0, kOptions, nullptr, context_.get(),
                            bytes(replacement_), replacement_.size(), reinterpret_cast<PCRE2_UCHAR*>(out.data()),
                            &size);
  }

  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  };
  std::string expression_, replacement_;
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

void warn_unused(Model& model, std::string_view option, std::string_view rule) {
  model.findings.push_back(
      {Severity::kWarning, "rename-nothing", fmt::format("{} '{}' changes no tensor name", option, printable(rule))});
}

void strip(std::vector<std::string>& names, const std::string& prefix, Model& model) {
  bool used = false;
  for (std::string& name : names) {
    if (prefix.empty() || name.size() <= prefix.size() || !name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    used = true;
  }
  if (!used) warn_unused(model, "--strip-prefix", prefix);
}

void replace(std::vector<std::string>& names, const Replacement& replacement, Model& model) {
  bool used = false;
  for (std::string& name : names) {
    std::string renamed = replacement.apply(name);
    if (renamed == name) continue;
    if (renamed.empty())
      fail(ErrorCode::kUsage, "--rename '{}' would leave tensor '{}' without a name",
           printable(replacement.expression()), printable(name));
    name = std::move(renamed);
    used = true;
  }
  if (!used) warn_unused(model, "--rename", replacement.expression());
}

[[noreturn]] void fail_clash(const Tensor& first, const Tensor& second, const std::string& name) {
  Error error(ErrorCode::kUsage,
              fmt::format("the tensors '{}' and '{}' would both be named '{}'; keep them apart with another "
                          "--strip-prefix or --rename, leave one out with --exclude, or take one part of a nested "
                          "checkpoint with --key PATH",
                          printable(first.info.name), printable(second.info.name), printable(name)));
  if (second.source_file) error.in_file(second.source_file->path());
  throw error;
}

void check_clashes(const Model& model, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, std::size_t> seen;
  seen.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [at, is_new] = seen.emplace(names[i], i);
    if (!is_new) fail_clash(model.tensors[at->second], model.tensors[i], names[i]);
  }
}

}  // namespace

Model rename_tensors(Model model, const RenameRules& rules) {
  std::vector<std::string> names;
  names.reserve(model.tensors.size());
  for (const Tensor& tensor : model.tensors) names.push_back(tensor.info.name);
  for (const std::string& prefix : rules.strip_prefixes) strip(names, prefix, model);
  for (const auto& [expression, replacement] : rules.replacements)
    replace(names, Replacement(expression, replacement), model);
  check_clashes(model, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    Tensor& tensor = model.tensors[i];
    if (names[i] == tensor.info.name) continue;
    if (tensor.source_name.empty()) tensor.source_name = tensor.info.name;
    tensor.transforms.push_back({"rename", {{"from", tensor.info.name}, {"to", names[i]}}});
    tensor.info.name = std::move(names[i]);
  }
  return model;
}

}  // namespace wconv
