#include <string>
#include <string_view>

#include "formats/gguf/header.h"
#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

constexpr std::uint64_t kMaxLayers = 512;  // LLAMA_MAX_LAYERS

// A positive integer, where the key is there; per-layer arrays are left alone.
void check_number(const Metadata& metadata, const std::string& key, std::uint64_t most, FindingList& findings) {
  const MetaValue* value = metadata.find(key);
  if (value == nullptr || value->type == MetaType::kArray) return;
  std::uint64_t number = 0;
  if (!value->as_unsigned(number)) {
    findings.warn("gguf-metadata",
                  fmt::format("key '{}' should be a positive integer; it is {} ({})", printable(key),
                              printable(metadata_json(*value).substr(0, 40)), meta_type_name(value->type)));
  } else if (number == 0 || number > most) {
    findings.warn("gguf-metadata", most == UINT64_MAX ? fmt::format("key '{}' is {}", printable(key), number)
                                                      : fmt::format("key '{}' is {}; llama.cpp allows 1 to {}",
                                                                    printable(key), number, most));
  }
}

const MetaArray* array_of(const Metadata& metadata, std::string_view key, MetaType element, FindingList& findings) {
  const MetaValue* value = metadata.find(key);
  if (value == nullptr) return nullptr;
  const MetaArray* array = std::get_if<MetaArray>(&value->value);
  if (array != nullptr && array->element == element) return array;
  findings.warn("gguf-metadata", fmt::format("key '{}' should be an array of {}; it is {}{}", key,
                                             meta_type_name(element), array != nullptr ? "an array of " : "",
                                             meta_type_name(array ? array->element : value->type)));
  return nullptr;
}

void check_tokens(const Metadata& metadata, FindingList& findings) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const MetaArray* tokens = array_of(metadata, kTokens, MetaType::kString, findings);
  for (const auto& [key, element] : {std::pair<std::string_view, MetaType>{"tokenizer.ggml.scores", MetaType::kF32},
                                     {"tokenizer.ggml.token_type", MetaType::kI32}}) {
    const MetaArray* array = array_of(metadata, key, element, findings);
    if (tokens != nullptr && array != nullptr && array->size() != tokens->size())
      findings.warn("gguf-metadata",
                    fmt::format("key '{}' has {} elements for {} tokens", key, array->size(), tokens->size()));
  }
  if (tokens == nullptr) return;
  const auto& texts = std::get<std::vector<std::string>>(tokens->values);
  std::size_t bad = 0, first = 0;
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!is_utf8(texts[i]) && bad++ == 0) first = i;
  if (bad != 0)
    findings.warn("gguf-metadata", fmt::format("{} of {} tokens are not UTF-8, the first is number {}: '{}'", bad,
                                               texts.size(), first, printable(texts[first])));
}

}  // namespace

void check_metadata(const Metadata& metadata, FindingList& findings) {
  check_tokens(metadata, findings);
  const MetaValue* architecture = metadata.find(kArchitectureKey);
  if (architecture == nullptr || architecture->as_string() == nullptr || architecture->as_string()->empty()) {
    findings.warn("gguf-metadata",
                  fmt::format("the key {} is missing or no string; llama.cpp needs it", kArchitectureKey));
    return;
  }
  const std::string& prefix = *architecture->as_string();
  check_number(metadata, prefix + ".block_count", kMaxLayers, findings);
  for (std::string_view key :
       {".attention.head_count", ".attention.head_count_kv", ".embedding_length", ".context_length"})
    check_number(metadata, prefix + std::string(key), UINT64_MAX, findings);
}

}  // namespace wconv::gguf
