#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "passes/cast_tensor.h"
#include "passes/integer_cast.h"
#include "passes/select.h"
#include "wconv/error.h"
#include "wconv/file.h"
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
    fail(ErrorCode::kUsage, "--dtype {}: {} is {}; give a floating-point type such as F16{}", name(*rules.dtype),
         name(*rules.dtype), kind_name(*rules.dtype),
         is_integer(*rules.dtype) ? fmt::format(", or --tensor-dtype GLOB={}", name(*rules.dtype)) : std::string());
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
    if (named[i] || model.tensors[i].is_parameter) continue;
    if (info(types[i]).kind == DTypeKind::kFloat) types[i] = *rules.dtype;
    if (info(types[i]).kind == DTypeKind::kBlock) ++kept[types[i]];
  }
  for (const auto& [dtype, count] : kept)
    model.findings.push_back({Severity::kNote, "kept-dtype",
                              fmt::format("{} tensor{} kept as {}", count, count == 1 ? "" : "s", name(dtype))});
  return types;
}

// True when `to` has no room for some finite value of `from`: tried with its largest ones.
bool narrower(DType from, DType to) {
  constexpr std::size_t kElements = 4;  // fill whole bytes of every type
  std::array<std::byte, kElements * 8> source, target;
  if (is_integer(from)) {
    for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {  // the largest and lowest have one of these in their last byte
      source.fill(fill == 0x00 || fill == 0x80 ? std::byte{0} : std::byte{0xff});
      const std::size_t size = info(from).block_elements > 1 ? 1 : info(from).block_bytes;
      source[size - 1] = static_cast<std::byte>(fill);
      const std::size_t elements = info(from).block_elements;
      if (passes::cast_integers(from, source, 0, elements, to, target).overflowed != 0) return true;
    }
    return false;
  }
  constexpr double kMost = std::numeric_limits<double>::max();
  std::array<double, kElements> values = {kMost, -kMost, kMost, -kMost};
  const auto bytes = std::span(source).first(kElements / info(from).block_elements * info(from).block_bytes);
  encode_f64(from, values, bytes, Overflow::kSaturate);
  decode_f64(from, bytes, values);
  const auto out = std::span(target).first(kElements / info(to).block_elements * info(to).block_bytes);
  return encode_f64(to, values, out, Overflow::kInfinity).overflowed != 0;
}

// "3 of 4 values WHAT in the cast BF16 to F16, the first at index 1"
std::string describe(const Tensor& tensor, const OverflowCount& overflow, std::string_view of, std::string_view what) {
  std::string from;
  for (const Transform& step : tensor.transforms)
    if (step.op == "cast" && !step.parameters.empty()) from = step.parameters.front().second + " to ";
  return fmt::format("{} of {} values{} {} in the cast {}{}, the first at index {}", overflow.elements,
                     element_count(tensor.info.shape), of, what, from, name(tensor.info.dtype), overflow.first);
}

std::string of_tensor(const Tensor& tensor) { return fmt::format(" of tensor '{}'", printable(tensor.info.name)); }

// The error names the first tensor as a field, and others in its message.
[[noreturn]] void fail_overflow(const Model& model, const std::vector<const Tensor*>& tensors, std::string_view what) {
  constexpr std::size_t kListed = 20;
  std::string listed;
  for (std::size_t i = 0; i < std::min(tensors.size(), kListed); ++i) {
    const Tensor& tensor = *tensors[i];
    listed += (i == 0 ? "" : "; ") + describe(tensor, tensor.data->overflow(), i == 0 ? "" : of_tensor(tensor), what);
  }
  if (tensors.size() > kListed) listed += fmt::format("; and {} more tensors", tensors.size() - kListed);
  throw Error(ErrorCode::kUnsupported, fmt::format("{}. Choose a wider type, or --on-overflow saturate or inf", listed))
      .in_tensor(tensors.front()->info.name)
      .in_file(tensors.front()->source_file ? tensors.front()->source_file->path() : model.path);
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
  const std::string_view what = on_overflow == OnOverflow::kError      ? "do not fit"
                                : on_overflow == OnOverflow::kSaturate ? "were saturated"
                                                                       : "became infinite, NaN or the largest value";
  std::vector<const Tensor*> overflowed;
  for (const Tensor& tensor : model.tensors)
    if (tensor.data->overflow().elements > 0) overflowed.push_back(&tensor);
  if (on_overflow == OnOverflow::kError && !overflowed.empty()) fail_overflow(model, overflowed, what);
  std::vector<Finding> findings;
  for (const Tensor* tensor : overflowed)
    findings.push_back(
        {Severity::kWarning, "overflow", describe(*tensor, tensor->data->overflow(), of_tensor(*tensor), what)});
  return findings;
}

std::size_t count_narrowed(const Model& model) {
  std::size_t count = 0;
  for (const Tensor& tensor : model.tensors) {
    count += std::any_of(tensor.transforms.begin(), tensor.transforms.end(), [](const Transform& step) {
      return step.op == "cast" &&
             narrower(*dtype_from_name(step.parameters.at(0).second), *dtype_from_name(step.parameters.at(1).second));
    });
  }
  return count;
}

}  // namespace wconv
