// GGUF files byte by byte, of any version, byte order and alignment, sound or not: written here and not by the writer
// under test. And what the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/gguf/gguf.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv::gguf::test {

enum class Order { kLittle, kBig };

class FileBuilder {
 public:
  explicit FileBuilder(std::uint32_t version = 3, Order order = Order::kLittle) : version_(version), order_(order) {}

  std::uint64_t size() const { return bytes_.size(); }
  std::vector<std::byte> bytes() const { return bytes_; }

  template <typename T>
  FileBuilder& number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      return number(std::bit_cast<Bits>(value));
    } else {
      auto part = wconv::test::bytes_of({value});
      if (order_ == Order::kBig) std::reverse(part.begin(), part.end());
      bytes_.insert(bytes_.end(), part.begin(), part.end());
      return *this;
    }
  }
  FileBuilder& u8(std::uint8_t value) { return number(value); }
  FileBuilder& u32(std::uint32_t value) { return number(value); }
  FileBuilder& u64(std::uint64_t value) { return number(value); }
  // A length or a count: 32 bits in version 1.
  FileBuilder& count(std::uint64_t value) {
    return version_ == 1 ? number(static_cast<std::uint32_t>(value)) : number(value);
  }
  FileBuilder& text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  FileBuilder& string(std::string_view value) { return count(value.size()).text(value); }
  FileBuilder& pad(std::uint64_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  FileBuilder& zeros(std::size_t size) {
    bytes_.resize(bytes_.size() + size);
    return *this;
  }

  FileBuilder& head(std::uint64_t tensors, std::uint64_t keys) {
    return text("GGUF").u32(version_).count(tensors).count(keys);
  }
  FileBuilder& key(std::string_view name, MetaType type) { return string(name).u32(static_cast<std::uint32_t>(type)); }
  FileBuilder& architecture() { return key("general.architecture", MetaType::kString).string("test"); }
  FileBuilder& alignment(std::uint32_t value) { return key("general.alignment", MetaType::kU32).u32(value); }
  // `dims` as they stand in the file: innermost first.
  FileBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                      std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) count(dim);
    return u32(type).u64(offset);
  }

 private:
  std::uint32_t version_;
  Order order_;
  std::vector<std::byte> bytes_;
};

constexpr std::uint32_t kTypeF32 = 0, kTypeQ8_0 = 8;  // ggml_type

inline Model open(std::span<const std::byte> bytes) {
  return gguf_reader().open(File::from_bytes("m.gguf", bytes), {});
}
inline Model open(const FileBuilder& file) { return open(file.bytes()); }

// A file that is read whole.
inline Model open_path(const std::string& path) { return gguf_reader().open(File::open(path), {}); }

inline std::vector<float> floats(const Tensor& tensor) {
  const auto bytes = wconv::test::read_all(tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The outcome of `action`, which must throw: code, message and byte offset.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string text;
  std::optional<std::uint64_t> offset;
};
inline Refusal refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what(), error.offset()};
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

inline bool has_finding(const Model& model, std::string_view code, std::string_view part = "") {
  return std::any_of(model.findings.begin(), model.findings.end(), [&](const Finding& finding) {
    return finding.code == code && finding.message.find(part) != std::string::npos;
  });
}

// The bytes of an output file as the engine would write them.
inline std::vector<std::byte> rendered(const Model& model, const OutputFile& file) {
  std::vector<std::byte> bytes(file.size);
  for (const Piece& piece : file.pieces) {
    const auto* literal = std::get_if<LiteralPiece>(&piece.content);
    const auto content =
        literal ? literal->bytes : wconv::test::read_all(model.tensors[std::get<TensorPiece>(piece.content).tensor]);
    std::copy(content.begin(), content.end(), bytes.begin() + static_cast<std::ptrdiff_t>(piece.offset));
  }
  return bytes;
}
inline std::vector<std::byte> written(const Model& model) {
  EXPECT_TRUE(gguf_writer().check(model, {}).empty()) << gguf_writer().check(model, {}).front();
  return rendered(model, gguf_writer().plan(model, {.file_name = "m.gguf"}).files.at(0));
}

}  // namespace wconv::gguf::test
