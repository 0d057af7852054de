// Passes: Model in, Model out. A pass computes nothing; it wraps tensors in lazy ones and records a Transform.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wconv/model.h"

namespace wconv {

// Matches a whole tensor name: '*' any run (dots too), '?' one character, [abc] a set.
bool glob_match(std::string_view pattern, std::string_view name);

// Keeps the tensors that match any of `include` (all, when empty) and none of `exclude`. A pattern that matches
// nothing is Error(kUsage), with the nearest name.
Model select_tensors(Model model, const std::vector<std::string>& include, const std::vector<std::string>& exclude);

// Tensors of `model` get the data and dtype of those of the same name in `weights`. Error(kUsage) for a tensor that the
// model does not have, and for one of another shape.
Model replace_weights(Model model, const Model& weights);

struct RenameRules {
  std::vector<std::string> strip_prefixes;                        // in this order
  std::vector<std::pair<std::string, std::string>> replacements;  // PCRE2 regular expression, replacement ($1)
};
// Two tensors that get one name are Error(kUsage) that names all three. A rule that changes nothing is a warning.
Model rename_tensors(Model model, const RenameRules& rules);

enum class OnOverflow { kError, kSaturate, kInfinity };

struct CastRules {
  std::optional<DType> dtype;                               // for every floating-point tensor but parameters
  std::vector<std::pair<std::string, DType>> tensor_dtype;  // glob → type; the last that matches wins
  OnOverflow on_overflow = OnOverflow::kError;
};
// Rounds to nearest, ties to even; NaN stays NaN. Casts between floats, and between integers where values fit.
Model cast_tensors(Model model, const CastRules& rules);

// After the data has been read: throws Error(kUnsupported) that lists every tensor with overflow under kError;
// returns warnings otherwise.
std::vector<Finding> overflow_findings(const Model& model, OnOverflow on_overflow);
// Before it: how many tensors are cast to a type whose range does not hold that of the type before.
std::size_t count_narrowed(const Model& model);

// --set KEY=VALUE (the type as the key has it; where it is new, the one that GGUF's specification gives it, or a
// string; or KEY:u32=7, KEY:array:u32=[1, 2]), --set-file KEY=PATH, --unset KEY. A key in two of these is
// Error(kUsage).
struct MetadataEdits {
  std::vector<std::string> set, set_file, unset;
};
Model edit_metadata(Model model, const MetadataEdits& edits);

}  // namespace wconv
