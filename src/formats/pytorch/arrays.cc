// numpy arrays and scalars.
#include <array>

#include "formats/pytorch/objects.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

struct NumpyType {
  std::string_view code;
  DType dtype;
};
constexpr auto kNumpyTypes = std::to_array<NumpyType>({
    {"b1", DType::kBool},
    {"i1", DType::kI8},
    {"i2", DType::kI16},
    {"i4", DType::kI32},
    {"i8", DType::kI64},
    {"u1", DType::kU8},
    {"u2", DType::kU16},
    {"u4", DType::kU32},
    {"u8", DType::kU64},
    {"f2", DType::kF16},
    {"f4", DType::kF32},
    {"f8", DType::kF64},
    {"c8", DType::kC64},
    {"c16", DType::kC128},
});

// UTF-8 text whose characters are bytes: how protocols 0 to 2 carry binary data.
std::vector<std::byte> latin1_bytes(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      bytes.push_back(static_cast<std::byte>(c));
    } else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.size()) {
      bytes.push_back(static_cast<std::byte>((c & 3u) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3Fu)));
    } else {
      fail(ErrorCode::kCorrupt, "its bytes are stored as text that is not latin-1");
    }
  }
  return bytes;
}

}  // namespace

Objects::NumpyCode Objects::numpy_code(NodeId id) const {
  NumpyCode code;
  if (meaning(id).meaning != Meaning::kNumpyDtype) return code;
  const auto& args = call_args(id, 0);
  if (args.empty() || pickle_.kind(args[0]) != NodeKind::kText) return code;
  code.text = pickle_.text(args[0]);
  code.big_endian = code.text.starts_with('>');
  if (code.big_endian || code.text.starts_with('<') || code.text.starts_with('|')) code.text.erase(0, 1);
  const NodeId state = pickle_.object(id).state;
  if (state != kNoNode && pickle_.kind(state) == NodeKind::kTuple && pickle_.items(state).size() > 1) {
    const NodeId order = pickle_.items(state)[1];
    code.big_endian = code.big_endian || (pickle_.kind(order) == NodeKind::kText && pickle_.text(order) == ">");
  }
  return code;
}

std::pair<DType, bool> Objects::numpy_dtype(NodeId id) const {
  const NumpyCode code = numpy_code(id);
  if (code.text.empty()) fail(ErrorCode::kUnsupported, "its numpy dtype is not a plain one");
  for (const NumpyType& type : kNumpyTypes) {
    if (type.code == code.text) return {type.dtype, code.big_endian};
  }
  fail(ErrorCode::kUnsupported, "its numpy dtype '{}' is not supported", code.text);
}

std::shared_ptr<const TensorData> Objects::bytes(NodeId id) const {
  if (meaning(id).meaning == Meaning::kEncode) {
    const NodeId text = call_args(id, 1)[0];
    if (pickle_.kind(text) != NodeKind::kText) fail(ErrorCode::kCorrupt, "its bytes are encoded from no text");
    return memory_tensor(latin1_bytes(pickle_.text(text)));
  }
  if (meaning(id).meaning == Meaning::kBytes) {
    const auto& args = call_args(id, 0);
    if (!args.empty() && meaning(args[0]).meaning == Meaning::kBytes)
      fail(ErrorCode::kUnsupported, "its data is bytes of bytes");
    return args.empty() ? memory_tensor({}) : bytes(args[0]);
  }
  if (pickle_.kind(id) != NodeKind::kBytes && pickle_.kind(id) != NodeKind::kText) {
    fail(ErrorCode::kUnsupported, "its data is no bytes");
  }
  const Blob& blob = pickle_.blob(id);
  if (blob.in_file) return file_tensor(pickle_.file(), blob.offset, blob.size);
  const auto* first = reinterpret_cast<const std::byte*>(blob.owned.data());
  return memory_tensor(std::vector<std::byte>(first, first + blob.owned.size()));
}

Tensor Objects::array(NodeId id) {
  const auto known = arrays_.find(id);
  return known != arrays_.end() ? known->second : arrays_.emplace(id, read_array(id)).first->second;
}

Tensor Objects::read_array(NodeId id) const {
  if (!is_tensor(id)) fail(ErrorCode::kUnsupported, "is a numpy array without plain numbers");
  const bool from_buffer = meaning(id).meaning == Meaning::kNumpyFromBuffer;
  // _frombuffer(bytes, dtype, shape, order), or state (version, shape, dtype, is_fortran, bytes)
  const auto& parts = from_buffer ? call_args(id, 4) : pickle_.items(pickle_.object(id).state);
  const auto [dtype, big] = numpy_dtype(parts[from_buffer ? 1 : 2]);
  const auto data = bytes(parts[from_buffer ? 0 : 4]);
  const bool fortran = from_buffer ? pickle_.kind(parts[3]) == NodeKind::kText && pickle_.text(parts[3]) == "F"
                                   : pickle_.kind(parts[3]) != NodeKind::kNone && integer_or_bool(parts[3]) != 0;
  Tensor tensor;
  tensor.info.dtype = tensor.source_dtype = dtype;
  for (const std::int64_t size : integers(parts[from_buffer ? 2 : 1], "shape")) {
    if (size < 0) fail(ErrorCode::kCorrupt, "its shape holds {}", size);
    tensor.info.shape.push_back(static_cast<std::uint64_t>(size));
  }
  const std::uint64_t expected = storage_bytes(dtype, tensor.info.shape);
  if (data->size_bytes() != expected) {
    fail(ErrorCode::kCorrupt, "its shape and dtype need {} bytes, its data has {}", expected, data->size_bytes());
  }
  std::vector<std::int64_t> strides(tensor.info.shape.size());
  std::int64_t step = 1;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::size_t d = fortran ? i : strides.size() - 1 - i;
    strides[d] = step;
    if (__builtin_mul_overflow(step, tensor.info.shape[d], &step)) step = 0;  // the array is empty
  }
  const std::uint32_t element = info(dtype).block_bytes;
  tensor.data = strided_tensor(data, element, 0, tensor.info.shape, strides);
  if (big) tensor.data = swapped_tensor(tensor.data, info(dtype).kind == DTypeKind::kComplex ? element / 2 : element);
  if (const auto range = data->file_range()) {
    tensor.source_file = range->file;
    tensor.source_offset = range->offset;
  }
  return tensor;
}

Tensor Objects::numpy_scalar(NodeId id) const {
  const auto& args = call_args(id, 2);
  const auto [dtype, big] = numpy_dtype(args[0]);
  Tensor tensor;
  tensor.info.dtype = tensor.source_dtype = dtype;
  tensor.data = bytes(args[1]);
  if (tensor.data->size_bytes() != info(dtype).block_bytes)
    fail(ErrorCode::kCorrupt, "a numpy scalar has the wrong size");
  const std::uint32_t element = info(dtype).block_bytes;
  if (big) tensor.data = swapped_tensor(tensor.data, info(dtype).kind == DTypeKind::kComplex ? element / 2 : element);
  return tensor;
}

std::int64_t Objects::integer_or_bool(NodeId id) const {
  return pickle_.kind(id) == NodeKind::kBool ? pickle_.integer(id) : integer(id, "order");
}

}  // namespace wconv::pytorch
