#include <map>
#include <optional>
#include <tuple>

#include "passes/cast_tensor.h"
#include "passes/select.h"
#include "wconv/error.h"
#include "wconv/pass.h"

namespace wconv {
namespace {

bool is_integer(DType dtype) {
  const DTypeKind kind = info(dtype).kind;
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned || kind == DTypeKind::kBool;
}

std::string_view kind_name(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeKind::kFloat:
      return "a floating-point type";
    case DTypeKind::kComplex:
      return "a complex type";
    case DTypeKind::kBlock:
      return "a block type of ggml";
    case DTypeKind::kBool:
      return "a truth value";
    default:
      return "an integer type";
  }
}

void require_castable(const Tensor& tensor, DType to) {
  const DType from = tensor.info.dtype;
  if (from == to) return;
  const bool floats = info(from).kind == DTypeKind::kFloat && info(to).kind == DTypeKind::kFloat;
  if (floats || (is_integer(from) && is_integer(to))) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("a cast from {} ({}) to {} ({}) is not possible; casts go between floating-point "
                          "types and between integer types",
                          name(from), kind_name(from), name(to), kind_name(to)))
      .in_tensor(tensor.info.name);
}

// The type that each tensor is to have.
std::vector<DType> targets(Model& model, const CastRules& rules) {
  if (rules.dtype && info(*rules.dtype).kind != DTypeKind::kFloat)
    fail(ErrorCode::kUsage, "--dtype {}: {} is {}; give a floating-point type such as F16, or --tensor-dtype GLOB={}",
         name(*rules.dtype), name(*rules.dtype), kind_name(*rules.dtype), name(*rules.dtype));
  std::vector<DType> types;
  std::vector<bool> named(model.tensors.size());
  std::map<DType, std::size_t> kept;
  for (const Tensor& tensor : model.tensors) types.push_back(tensor.info.dtype);
  for (const auto& [pattern, dtype] : rules.tensor_dtype) {
    const std::vector<bool> matches = passes::matching(model, pattern);
    for (std::size_t i = 0; i < matches.size(); ++i) {
      if (!matches[i]) continue;
      named[i] = true;
      types[i] = dtype;
    }
  }
  for (std::size_t i = 0; rules.dtype && i < types.size(); ++i) {
    if (named[i]) continue;
    if (info(types[i]).kind == DTypeKind::kFloat) types[i] = *rules.dtype;
    if (info(types[i]).kind == DTypeKind::kBlock) ++kept[types[i]];
  }
  for (const auto& [dtype, count] : kept)
    model.findings.push_back({Severity::kNote, "kept-dtype",
                              fmt::format("{} tensor{} kept as {}", count, count == 1 ? "" : "s", name(dtype))});
  return types;
}

std::string describe(const Tensor& tensor, const OverflowCount& overflow, std::string_view what) {
  std::string from;
  for (const Transform& step : tensor.transforms)
    if (step.op == "cast" && !step.parameters.empty()) from = step.parameters.front().second + " to ";
  return fmt::format("{} of {} values of tensor '{}' {} in the cast {}{}, the first at index {}", overflow.elements,
                     element_count(tensor.info.shape), printable(tensor.info.name), what, from, name(tensor.info.dtype),
                     overflow.first);
}

}  // namespace

Model cast_tensors(Model model, const CastRules& rules) {
  const std::vector<DType> types = targets(model, rules);
  const Overflow mode = rules.on_overflow == OnOverflow::kSaturate ? Overflow::kSaturate : Overflow::kInfinity;
  // Tied tensors stay tied: one source, one cast.
  std::map<std::tuple<const TensorData*, DType, DType, std::uint64_t>, std::shared_ptr<const TensorData>> casts;
  for (std::size_t i = 0; i < types.size(); ++i) require_castable(model.tensors[i], types[i]);
  for (std::size_t i = 0; i < types.size(); ++i) {
    Tensor& tensor = model.tensors[i];
    const DType from = tensor.info.dtype;
    if (types[i] == from) continue;
    auto& cast = casts[{tensor.data.get(), from, types[i], element_count(tensor.info.shape)}];
    try {
      if (!cast) cast = std::make_shared<passes::CastTensor>(tensor.data, from, types[i], tensor.info.shape, mode);
    } catch (Error& error) {
      error.in_tensor(tensor.info.name);
      throw;
    }
    tensor.data = cast;
    tensor.info.dtype = types[i];
    tensor.transforms.push_back({"cast", {{"from", std::string(name(from))}, {"to", std::string(name(types[i]))}}});
  }
  return model;
}

std::vector<Finding> overflow_findings(const Model& model, OnOverflow on_overflow) {
  constexpr std::size_t kListed = 20;
  const std::string_view what = on_overflow == OnOverflow::kError      ? "do not fit"
                                : on_overflow == OnOverflow::kSaturate ? "were saturated"
                                                                       : "became infinite, NaN or the largest value";
  std::vector<Finding> findings;
  std::string listed;
  for (const Tensor& tensor : model.tensors) {
    const OverflowCount overflow = tensor.data->overflow();
    if (overflow.elements == 0) continue;
    findings.push_back({Severity::kWarning, "overflow", describe(tensor, overflow, what)});
    if (findings.size() <= kListed) listed += (listed.empty() ? "" : "; ") + findings.back().message;
  }
  if (on_overflow != OnOverflow::kError || findings.empty()) return findings;
  if (findings.size() > kListed) listed += fmt::format("; and {} more tensors", findings.size() - kListed);
  fail(ErrorCode::kUnsupported, "{}. Choose a wider type, or --on-overflow saturate or inf", listed);
}

}  // namespace wconv
