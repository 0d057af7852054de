// ONNX files field by field, sound or not: written here and not by the writer under test. And what the tests of this
// folder share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "formats/onnx/onnx.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv::onnx::test {

// The bytes of a message.
class Proto {
 public:
  Proto& number(std::uint32_t field, std::uint64_t value) { return varint(field << 3).varint(value); }
  Proto& text(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2).varint(value.size());
    bytes_ += value;
    return *this;
  }
  Proto& message(std::uint32_t field, const Proto& value) { return text(field, value.bytes_); }
  Proto& varint(std::uint64_t value) {
    for (; value > 0x7f; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Proto& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline constexpr std::uint64_t kFloat = 1, kInt8 = 3, kString = 8;

// A TensorProto without data: dims, data_type, name.
inline Proto tensor(std::string_view name, std::uint64_t type, std::initializer_list<std::uint64_t> dims) {
  Proto proto;
  for (const std::uint64_t dim : dims) proto.number(1, dim);
  return proto.number(2, type).text(8, name);
}
// Two floats in raw_data.
inline Proto pair(std::string_view name) { return tensor(name, kFloat, {2}).text(9, std::string(8, '\1')); }

inline Proto graph_of(std::initializer_list<Proto> tensors) {
  Proto graph;
  for (const Proto& proto : tensors) graph.message(5, proto);
  return graph.text(2, "g");
}
inline Proto model_of(const Proto& graph) {
  return Proto().number(1, 10).message(7, graph).message(8, Proto().text(1, "").number(2, 21));
}
inline Proto model_with(std::initializer_list<Proto> tensors) { return model_of(graph_of(tensors)); }

inline Proto entry(std::string_view key, std::string_view value) { return Proto().text(1, key).text(2, value); }
// Two floats in another file.
inline Proto external(std::string_view name, std::string_view location) {
  return tensor(name, kFloat, {2}).message(13, entry("location", location)).number(14, 1);
}

inline Model open(const Proto& model) {
  return onnx_reader().open(File::from_bytes("m.onnx", std::as_bytes(std::span(model.bytes()))), {});
}

struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string text, tensor;
  std::optional<std::uint64_t> offset;
};
inline Refusal refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what(), error.tensor().value_or(""), error.offset()};
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

inline bool has_finding(const Model& model, std::string_view code, std::string_view text) {
  for (const Finding& finding : model.findings)
    if (finding.code == code && finding.message.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace wconv::onnx::test
