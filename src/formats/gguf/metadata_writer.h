// Metadata and tensor entries as the bytes of a version 3, little-endian header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "wconv/model.h"

namespace wconv::gguf {

class HeaderBytes {
 public:
  HeaderBytes(std::uint64_t tensors, std::uint64_t keys);
  void key_value(std::string_view key, const MetaValue& value);
  void tensor(const TensorInfo& info, std::uint64_t offset);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <typename T>
  void number(T value);
  void bytes(const void* data, std::size_t size);
  void string(std::string_view text);
  void integer(MetaType type, std::uint64_t value);
  void real(MetaType type, double value);
  void array(const MetaArray& array);
  std::vector<std::byte> bytes_;
};

}  // namespace wconv::gguf
