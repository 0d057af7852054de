#include "formats/gguf/writer_checks.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "formats/gguf/layout.h"
#include "wconv/error.h"

namespace wconv::gguf {
namespace {

constexpr std::size_t kListed = 20;

// Problems of one kind.
class Kind {
 public:
  explicit Kind(std::string_view what) : what_(what) {}
  void add(std::string problem) {
    if (++count_ <= kListed) listed_.push_back(std::move(problem));
  }
  void append_to(std::vector<std::string>& problems) {
    for (std::string& problem : listed_) problems.push_back(std::move(problem));
    if (count_ > kListed) problems.push_back(fmt::format("and {} more tensors {}", count_ - kListed, what_));
  }

 private:
  std::string_view what_;
  std::size_t count_ = 0;
  std::vector<std::string> listed_;
};

// The narrowest type of GGUF that holds every value.
std::string_view instead_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kI4:
    case DType::kU4:
    case DType::kI2:
    case DType::kU2:
      return "I8";
    case DType::kU8:
      return "I16";
    case DType::kU16:
      return "I32";
    case DType::kU32:
    case DType::kU64:
      return "I64";
    case DType::kF8E8M0:
      return "BF16";
    default:
      break;
  }
  return info(dtype).kind == DTypeKind::kFloat ? "F16" : "";
}

std::string no_such_type(const Tensor& tensor) {
  const std::string name = printable(tensor.info.name);
  const std::string_view instead = instead_of(tensor.info.dtype);
  const std::string convert =
      instead.empty() ? "" : fmt::format("convert it with --tensor-dtype '{}={}' or ", name, instead);
  return fmt::format("tensor '{}' is {}, which GGUF has no type for: {}leave it out with --exclude '{}'", name,
                     wconv::name(tensor.info.dtype), convert, name);
}

void check_names(const Model& model, std::vector<std::string>& problems) {
  Kind long_names("whose names are too long"), broken("with names that GGUF cannot hold");
  std::unordered_set<std::string_view> seen;
  for (const Tensor& tensor : model.tensors) {
    const std::string& name = tensor.info.name;
    if (name.empty()) broken.add("a tensor has no name: give it one with --rename '^$=NAME'");
    if (name.find('\0') != std::string::npos)
      broken.add(
          fmt::format("the tensor name '{}' has a NUL byte inside: give it another with --rename", printable(name)));
    if (!seen.insert(name).second) broken.add(fmt::format("two tensors have the name '{}'", printable(name)));
    if (name.size() > kMaxNameBytes)
      long_names.add(
          fmt::format("the tensor name '{}' has {} bytes; llama.cpp loads at most {}: shorten it with --rename",
                      printable(name), name.size(), kMaxNameBytes));
  }
  broken.append_to(problems);
  long_names.append_to(problems);
}

bool deeper_than(const MetaArray& array, int depth) {
  if (depth == 0) return true;
  const auto* inner = std::get_if<std::vector<MetaArray>>(&array.values);
  return inner != nullptr &&
         std::any_of(inner->begin(), inner->end(), [&](const MetaArray& a) { return deeper_than(a, depth - 1); });
}

void check_metadata(const Model& model, std::vector<std::string>& problems) {
  for (const auto& [key, value] : model.metadata) {
    if (key.empty()) problems.push_back("a metadata key is empty: remove it with --unset ''");
    if (key.size() > kMaxKeyBytes)
      problems.push_back(fmt::format("the metadata key '{}…' has {} bytes; GGUF allows {}",
                                     printable(std::string_view(key).substr(0, 40)), key.size(), kMaxKeyBytes));
    if (const auto* array = std::get_if<MetaArray>(&value.value); array != nullptr && deeper_than(*array, kMaxDepth))
      problems.push_back(fmt::format("metadata key '{}' has arrays more than {} deep: remove it with --unset '{}'",
                                     printable(key), kMaxDepth, printable(key)));
  }
  try {
    stated_alignment(model.metadata);
  } catch (const Error& error) {
    problems.push_back(error.message() + ": change it with --set general.alignment:u32=32");
  }
}

}  // namespace

std::vector<std::string> check_model(const Model& model) {
  std::vector<std::string> problems;
  check_names(model, problems);
  Kind types("of types that GGUF does not have"), ranks("of too many dimensions"),
      sizes("with dimensions that are negative to ggml");
  for (const Tensor& tensor : model.tensors) {
    if (info(tensor.info.dtype).ggml < 0) types.add(no_such_type(tensor));
    if (tensor.info.shape.size() > kMaxDimensions)
      ranks.add(fmt::format("tensor '{}' has {} dimensions; GGUF holds at most {}: leave it out with --exclude '{}'",
                            printable(tensor.info.name), tensor.info.shape.size(), kMaxDimensions,
                            printable(tensor.info.name)));
    for (const std::uint64_t size : tensor.info.shape) {
      if (size >> 63 == 0) continue;
      sizes.add(
          fmt::format("tensor '{}' has a dimension of {}, which is negative to ggml: leave it out with --exclude '{}'",
                      printable(tensor.info.name), size, printable(tensor.info.name)));
      break;
    }
  }
  types.append_to(problems);
  ranks.append_to(problems);
  sizes.append_to(problems);
  check_metadata(model, problems);
  return problems;
}

}  // namespace wconv::gguf
