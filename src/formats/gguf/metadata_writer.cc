#include "formats/gguf/metadata_writer.h"

#include "formats/gguf/layout.h"

namespace wconv::gguf {

HeaderBytes::HeaderBytes(std::uint64_t tensors, std::uint64_t keys) {
  bytes(kMagic.data(), kMagic.size());
  number(kVersion);
  number(tensors);
  number(keys);
}

void HeaderBytes::bytes(const void* data, std::size_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  bytes_.insert(bytes_.end(), begin, begin + size);
}

template <typename T>
void HeaderBytes::number(T value) {
  bytes(&value, sizeof value);  // the machine is little-endian (quant/kernels/float_bits.h asserts it)
}

void HeaderBytes::string(std::string_view text) {
  number(std::uint64_t{text.size()});
  bytes(text.data(), text.size());
}

// Signed values arrive as their two's complement; the low bytes are the value.
void HeaderBytes::integer(MetaType type, std::uint64_t value) {
  switch (type) {
    case MetaType::kU8:
    case MetaType::kI8:
    case MetaType::kBool:
      return number(static_cast<std::uint8_t>(value));
    case MetaType::kU16:
    case MetaType::kI16:
      return number(static_cast<std::uint16_t>(value));
    case MetaType::kU32:
    case MetaType::kI32:
      return number(static_cast<std::uint32_t>(value));
    default:
      return number(value);
  }
}

void HeaderBytes::real(MetaType type, double value) {
  if (type == MetaType::kF32) return number(static_cast<float>(value));
  number(value);
}

void HeaderBytes::array(const MetaArray& array) {
  number(static_cast<std::uint32_t>(array.element));
  number(std::uint64_t{array.size()});
  std::visit(
      [&](const auto& values) {
        using T = typename std::decay_t<decltype(values)>::value_type;
        for (const T& value : values) {
          if constexpr (std::is_same_v<T, std::string>) {
            string(value);
          } else if constexpr (std::is_same_v<T, MetaArray>) {
            this->array(value);
          } else if constexpr (std::is_same_v<T, double>) {
            real(array.element, value);
          } else {
            integer(array.element, static_cast<std::uint64_t>(value));
          }
        }
      },
      array.values);
}

void HeaderBytes::key_value(std::string_view key, const MetaValue& value) {
  string(key);
  number(static_cast<std::uint32_t>(value.type));
  std::visit(
      [&](const auto& content) {
        using T = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<T, std::string>) {
          string(content);
        } else if constexpr (std::is_same_v<T, MetaArray>) {
          array(content);
        } else if constexpr (std::is_same_v<T, double>) {
          real(value.type, content);
        } else {
          integer(value.type, static_cast<std::uint64_t>(content));
        }
      },
      value.value);
}

void HeaderBytes::tensor(const TensorInfo& tensor, std::uint64_t offset) {
  string(tensor.name);
  number(static_cast<std::uint32_t>(tensor.shape.size()));
  for (std::size_t i = tensor.shape.size(); i-- > 0;) number(tensor.shape[i]);
  number(static_cast<std::uint32_t>(info(tensor.dtype).ggml));
  number(offset);
}

}  // namespace wconv::gguf
