// A file cut at any byte (of ONNX: formats/onnx/refusals_test.cc) is refused, or was cut behind its last tensor: never
// are bytes taken from beyond its end.
#include <gtest/gtest.h>

#include <map>

#include "formats/onnx/proto.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace wconv {
namespace {

using Tensors = std::map<std::string, std::vector<std::byte>>;

Tensors tensors_of(const Model& model) {
  Tensors tensors;
  for (const Tensor& tensor : model.tensors) tensors[tensor.info.name] = test::read_all(tensor);
  return tensors;
}
Tensors read_tensors(std::string_view bytes) {
  return tensors_of(open_file(File::from_bytes("m", std::as_bytes(std::span(bytes))), {}));
}

class Cut : public testing::TestWithParam<std::pair<const char*, std::size_t>> {};

TEST_P(Cut, AtAnyByteIsRefusedOrTakesPaddingOnly) {
  const auto& [name, most_padding] = GetParam();
  const std::string bytes = test::read_file(std::string(WCONV_TEST_DATA "/") + name);
  const Tensors whole = read_tensors(bytes);
  ASSERT_FALSE(whole.empty());
  std::size_t accepted = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      EXPECT_TRUE(read_tensors(std::string_view(bytes).substr(0, size)) == whole) << size;
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(exit_status(error.code()), 65) << size << error.what();
    }
  }
  EXPECT_LE(accepted, most_padding);
}

INSTANTIATE_TEST_SUITE_P(Formats, Cut,
                         testing::Values(std::pair("cases/A03/zip_p2.pth", 0), std::pair("cases/A03/legacy_p2.pth", 0),
                                         std::pair("cases/A03/legacy_p4.pth", 0),
                                         std::pair("cases/A05/rezipped_deflate.pth", 0),
                                         std::pair("cases/A04/tar.pth", 6656),  // empty blocks end a tar file
                                         std::pair("cases/B07/unaligned_header.safetensors", 0),
                                         std::pair("cases/C06/last_tensor_unpadded.gguf", 0),
                                         std::pair("formats/gguf/golden/types.gguf", 63)));

TEST(CutExternalData, AtAnyByteIsRefused) {
  const test::TempDir dir;
  const auto add = [](onnx::test::Proto proto, std::string_view offset) {
    return proto.message(13, onnx::test::entry("offset", offset));
  };
  test::write_file(dir / "m.onnx", onnx::test::model_with({add(onnx::test::external("a", "w"), "0"),
                                                           add(onnx::test::external("b", "w"), "8")})
                                       .bytes());
  for (std::size_t size = 0; size <= 16; ++size) {
    test::write_file(dir / "w", std::string(size, 'd'));
    if (size == 16) {
      EXPECT_EQ(tensors_of(open_model(dir / "m.onnx", {})).size(), 2u);
    } else {
      EXPECT_THROW(open_model(dir / "m.onnx", {}), Error) << size;
    }
  }
}

}  // namespace
}  // namespace wconv
