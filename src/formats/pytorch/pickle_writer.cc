#include "formats/pytorch/pickle_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string_view>

#include "wconv/dtype.h"

namespace wconv::pytorch {
namespace {

// Storage classes of the dtypes that torch had when storages were typed; other dtypes name themselves (_v3).
constexpr auto kStorageClasses =
    std::to_array<std::pair<DType, std::string_view>>({{DType::kF32, "FloatStorage"},
                                                       {DType::kF64, "DoubleStorage"},
                                                       {DType::kF16, "HalfStorage"},
                                                       {DType::kBF16, "BFloat16Storage"},
                                                       {DType::kI64, "LongStorage"},
                                                       {DType::kI32, "IntStorage"},
                                                       {DType::kI16, "ShortStorage"},
                                                       {DType::kI8, "CharStorage"},
                                                       {DType::kU8, "ByteStorage"},
                                                       {DType::kBool, "BoolStorage"},
                                                       {DType::kC64, "ComplexFloatStorage"},
                                                       {DType::kC128, "ComplexDoubleStorage"}});

std::string_view storage_class(DType dtype) {
  const auto row =
      std::find_if(kStorageClasses.begin(), kStorageClasses.end(), [&](const auto& r) { return r.first == dtype; });
  return row == kStorageClasses.end() ? std::string_view() : row->second;
}

class PickleWriter {
 public:
  void begin() { bytes("\x80\x02}("); }
  std::vector<std::byte> end() {
    bytes("u.");
    return std::move(out_);
  }

  void tensor(const Tensor& tensor, std::size_t storage) {
    const DType dtype = tensor.info.dtype;
    const std::string_view typed = storage_class(dtype);
    const std::uint64_t element = info(dtype).block_bytes;
    text(tensor.info.name);
    global("torch._utils", typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    bytes("((");
    shared_text("storage");
    typed.empty() ? global("torch.storage", "UntypedStorage") : global("torch", typed);
    text(std::to_string(storage));
    shared_text("cpu");
    integer(tensor.data->size_bytes() / (typed.empty() ? 1 : element));
    bytes("tQ");  // the storage; its first element is the tensor's
    integer(0);
    sizes(tensor.info.shape);
    strides(tensor.info.shape);
    bytes("\x89");                         // requires_grad: False
    global("collections", "OrderedDict");  // of hooks: none
    bytes(")R");
    if (typed.empty()) global("torch", info(dtype).torch);
    bytes("tR");
  }

 private:
  void bytes(std::string_view text) {
    for (const char c : text) out_.push_back(static_cast<std::byte>(c));
  }
  void number(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void text(std::string_view text) {
    bytes("X");
    number(text.size(), 4);
    bytes(text);
  }
  void integer(std::uint64_t value) {
    if (value <= 0xff) {
      bytes("K");
      number(value, 1);
    } else if (value <= 0x7fffffff) {
      bytes("J");
      number(value, 4);
    } else {
      const auto size = static_cast<std::size_t>(std::bit_width(value)) / 8 + 1;  // with a bit for the sign
      bytes("\x8a");
      number(size, 1);
      number(value, size);
    }
  }
  void tuple(const std::vector<std::uint64_t>& values) {
    bytes("(");
    for (const std::uint64_t value : values) integer(value);
    bytes("t");
  }
  void sizes(const std::vector<std::uint64_t>& shape) { tuple(shape); }
  void strides(const std::vector<std::uint64_t>& shape) {
    std::vector<std::uint64_t> steps(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) steps[i - 1] = steps[i] * std::max<std::uint64_t>(shape[i], 1);
    tuple(steps);
  }
  // The first use is stored in the memo, later ones refer to it.
  template <typename Write>
  void shared(const std::string& key, Write write) {
    const auto [entry, added] = memo_.emplace(key, memo_.size());
    if (added) write();
    bytes(added ? "q" : "h");
    number(entry->second, 1);
  }
  void shared_text(std::string_view value) {
    shared(std::string(value), [&] { text(value); });
  }
  void global(std::string_view module, std::string_view name) {
    const std::string line = std::string(module) + "\n" + std::string(name) + "\n";
    shared("c" + line, [&] { bytes("c" + line); });
  }

  std::vector<std::byte> out_;
  std::map<std::string, std::size_t> memo_;
};

}  // namespace

std::vector<std::byte> state_dict_pickle(std::span<const Tensor> tensors, std::span<const std::size_t> storages) {
  PickleWriter writer;
  writer.begin();
  for (std::size_t i = 0; i < tensors.size(); ++i) writer.tensor(tensors[i], storages[i]);
  return writer.end();
}

}  // namespace wconv::pytorch
