// Leaves that are not tensors: what becomes metadata, and what is only said to be there.
#include <array>

#include "core/utf8.h"
#include "formats/pytorch/objects.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::pytorch {
namespace {

constexpr std::size_t kMaxListLeaf = 1000;         // longer lists of numbers are not metadata
constexpr std::uint64_t kMaxTextLeaf = 64 * 1024;  // bytes
constexpr std::uint64_t kMaxBytesLeaf = 1024;

std::string complex_text(double real, double imaginary) {
  return fmt::format("({}{:+}j)", real, imaginary);  // as Python prints it
}

// The one element of a tensor; integers exactly.
std::optional<MetaValue> scalar_value(const Tensor& scalar) {
  const DTypeInfo& type = info(scalar.info.dtype);
  if (type.kind == DTypeKind::kComplex) {
    const DType part = type.block_bytes == 16 ? DType::kF64 : DType::kF32;
    std::array<std::byte, 16> stored{};
    const std::span<std::byte> bytes(stored.data(), scalar.data->size_bytes());
    scalar.data->read(0, bytes);
    std::array<double, 2> parts{};
    decode_f64(part, bytes, parts);
    return MetaValue::string(complex_text(parts[0], parts[1]));
  }
  if (!can_decode(type.dtype) || scalar.data->size_bytes() > 8) return std::nullopt;
  std::array<std::byte, 8> stored{};
  const std::span<std::byte> bytes(stored.data(), scalar.data->size_bytes());
  scalar.data->read(0, bytes);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 8; ++i) bits |= std::to_integer<std::uint64_t>(stored[i]) << (8 * i);
  const unsigned unused = 64 - 8 * type.block_bytes;
  if (type.kind == DTypeKind::kBool) return MetaValue::boolean(bits != 0);
  if (type.kind == DTypeKind::kUnsigned) return MetaValue::u64(bits);
  if (type.kind == DTypeKind::kSigned) return MetaValue::i64(static_cast<std::int64_t>(bits << unused) >> unused);
  double value = 0;
  decode_f64(type.dtype, bytes, std::span(&value, 1));
  return MetaValue::f64(value);
}

// As Python prints bytes: b'\x89PNG'.
std::string bytes_text(std::span<const std::byte> bytes) {
  std::string text = "b'";
  for (const std::byte byte : bytes) {
    const auto c = std::to_integer<unsigned char>(byte);
    if (c == '\'' || c == '\\') text += '\\';
    text += c >= 0x20 && c < 0x7F ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return text + "'";
}

// numpy's fixed-length text, 4 bytes a character, filled up with zeros. Nothing where a character is no Unicode one.
std::optional<std::string> utf32_text(std::span<const std::byte> bytes, bool big_endian) {
  std::string text;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t c = 0;
    for (std::size_t i = 0; i < 4; ++i)
      c = c << 8 | std::to_integer<std::uint32_t>(bytes[at + (big_endian ? i : 3 - i)]);
    if (!append_utf8(text, c)) return std::nullopt;
  }
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace

// JSON text of a number, boolean, text or None; nothing for the rest.
std::optional<std::string> Objects::scalar_json(NodeId id) const {
  switch (pickle_.kind(id)) {
    case NodeKind::kNone:
      return "null";
    case NodeKind::kBool:
      return pickle_.integer(id) ? "true" : "false";
    case NodeKind::kInt:
      return fmt::format("{}", pickle_.integer(id));
    case NodeKind::kLong: {
      std::string digits = pickle_.text(id);
      return digits.starts_with("0x") ? '"' + digits + '"' : digits;
    }
    case NodeKind::kFloat:
      return metadata_json(MetaValue::f64(pickle_.real(id)));
    case NodeKind::kText:
      if (pickle_.blob(id).size > kMaxTextLeaf) return std::nullopt;
      return metadata_json(MetaValue::string(pickle_.text(id)));
    default:
      return std::nullopt;
  }
}

std::optional<MetaValue> Objects::leaf(NodeId id) const {
  switch (pickle_.kind(id)) {
    case NodeKind::kNone:
      return MetaValue::string("None");
    case NodeKind::kBool:
      return MetaValue::boolean(pickle_.integer(id) != 0);
    case NodeKind::kInt:
      return MetaValue::i64(pickle_.integer(id));
    case NodeKind::kFloat:
      return MetaValue::f64(pickle_.real(id));
    case NodeKind::kLong:
      return MetaValue::string(pickle_.text(id));
    case NodeKind::kText:
      if (pickle_.blob(id).size > kMaxTextLeaf) return std::nullopt;
      return MetaValue::string(pickle_.text(id));
    case NodeKind::kBytes:
      return bytes_leaf(id);
    case NodeKind::kGlobal:
      return MetaValue::string(pickle_.global_name(id));
    case NodeKind::kDict:
      return pickle_.items(id).empty() ? std::optional(MetaValue::string("{}")) : std::nullopt;
    case NodeKind::kList:
    case NodeKind::kTuple: {
      const auto& items = pickle_.items(id);
      if (items.size() > kMaxListLeaf) return std::nullopt;
      std::string text = "[";
      for (const NodeId item : items) {
        const auto json = scalar_json(item);
        if (!json || text.size() + json->size() > kMaxTextLeaf) return std::nullopt;
        text += (text.size() == 1 ? "" : ", ") + *json;
      }
      return MetaValue::string(text + "]");
    }
    case NodeKind::kObject:
      return object_leaf(id);
    default:
      return std::nullopt;
  }
}

std::optional<MetaValue> Objects::object_leaf(NodeId id) const {
  const auto& args = call_args(id, 0);
  switch (meaning(id).meaning) {
    case Meaning::kNumpyScalar:
      return numpy_leaf(id);
    case Meaning::kNumpyDtype:
      return args.empty() ? std::nullopt : leaf(args[0]);
    case Meaning::kEncode:
    case Meaning::kBytes:
      return bytes_leaf(id);
    case Meaning::kComplex: {
      const auto part = [&](std::size_t i) {
        if (i >= args.size()) return 0.0;
        return pickle_.kind(args[i]) == NodeKind::kFloat ? pickle_.real(args[i])
                                                         : static_cast<double>(integer(args[i], "complex number"));
      };
      return MetaValue::string(complex_text(part(0), part(1)));
    }
    case Meaning::kSize:
    case Meaning::kList:
    case Meaning::kTuple:
    case Meaning::kScalar:
    case Meaning::kDevice:
      return !args.empty() && pickle_.object(id).list.empty() && pickle_.kind(args[0]) != NodeKind::kObject
                 ? leaf(args[0])
                 : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<MetaValue> Objects::bytes_leaf(NodeId id) const {
  std::vector<std::byte> held;
  try {
    const auto data = bytes(id);
    if (data->size_bytes() > kMaxBytesLeaf) return std::nullopt;
    held.resize(data->size_bytes());
    data->read(0, held);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kCorrupt) throw;
    return std::nullopt;
  }
  return MetaValue::string(bytes_text(held));
}

// scalar(dtype, bytes): a number, or text of the dtypes U (UTF-32) and S (bytes).
std::optional<MetaValue> Objects::numpy_leaf(NodeId id) const {
  const auto& args = call_args(id, 0);
  if (args.size() < 2) return std::nullopt;
  try {
    const NumpyCode code = numpy_code(args[0]);
    if (!code.text.starts_with('U') && !code.text.starts_with('S')) return scalar_value(numpy_scalar(id));
    const auto data = bytes(args[1]);
    if (data->size_bytes() > kMaxTextLeaf) return std::nullopt;
    std::vector<std::byte> held(data->size_bytes());
    data->read(0, held);
    if (code.text.starts_with('S')) return MetaValue::string(bytes_text(held));
    auto text = utf32_text(held, code.big_endian);
    return text ? std::optional(MetaValue::string(*std::move(text))) : std::nullopt;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

std::string Objects::description(NodeId id) const {
  switch (pickle_.kind(id)) {
    case NodeKind::kText:
      return fmt::format("a text of {} bytes", pickle_.blob(id).size);
    case NodeKind::kBytes:
      return fmt::format("{} bytes", pickle_.blob(id).size);
    case NodeKind::kPersistent:
      return "a storage that no tensor holds";
    default:
      break;
  }
  const auto dtype = [&](NodeId node) {
    const std::string code = numpy_code(node).text;
    return code.empty() ? "an unknown dtype" : fmt::format("dtype '{}'", printable(code));
  };
  const auto& args = call_args(id, 0);
  switch (meaning(id).meaning) {
    case Meaning::kNumpyScalar:
      return fmt::format("a numpy scalar of {}", args.empty() ? "an unknown dtype" : dtype(args[0]));
    case Meaning::kNumpyFromBuffer:
      return fmt::format("a numpy array of {}", args.size() < 2 ? "an unknown dtype" : dtype(args[1]));
    case Meaning::kNumpyReconstruct: {
      const NodeId state = pickle_.object(id).state;
      const bool known = state != kNoNode && pickle_.kind(state) == NodeKind::kTuple && pickle_.items(state).size() > 2;
      return fmt::format("a numpy array of {}", known ? dtype(pickle_.items(state)[2]) : "an unknown dtype");
    }
    case Meaning::kEncode:
    case Meaning::kBytes:
      return "bytes";
    default:
      return fmt::format("a value of {}", printable(class_name(id)));
  }
}

}  // namespace wconv::pytorch
