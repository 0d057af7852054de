// Every narrow float type against torch, ml_dtypes and numpy; golden/make.py wrote the files.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/hash.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

const std::string kGolden = std::string(WCONV_TEST_DATA) + "/quant/kernels/golden/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
std::string sha256(const std::vector<T>& values) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(values)));
  return hash.hex();
}

std::vector<float> strided_f32() {
  std::vector<float> values(524288);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * 8191));
  return values;
}

std::vector<float> dense_f32() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high)
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>((high << 16) | low));
  const auto strided = strided_f32();
  values.insert(values.end(), strided.begin(), strided.end());
  return values;
}

std::vector<double> dense_f64() {
  std::vector<double> values;
  for (float value : strided_f32()) {
    if (!std::isfinite(value) || value == 0) continue;
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    for (std::uint64_t near : {bits - 1, bits, bits + 1}) values.push_back(std::bit_cast<double>(near));
  }
  return values;
}

unsigned bits_of(DType dtype) { return 8u * info(dtype).block_bytes / info(dtype).block_elements; }

// One code for each element, unpacked; every NaN is all ones, as make.py writes it.
template <typename Code>
std::vector<Code> plain_codes(DType dtype, std::span<const std::byte> packed, std::size_t n) {
  const unsigned width = bits_of(dtype);
  std::vector<double> decoded(n);
  decode_f64(dtype, packed, decoded);
  std::vector<Code> codes(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t code = 0;
    for (std::size_t bit = i * width; bit < (i + 1) * width; ++bit)
      code |= ((std::to_integer<std::uint64_t>(packed[bit / 8]) >> (bit % 8)) & 1) << (bit - i * width);
    codes[i] = std::isnan(decoded[i]) ? static_cast<Code>(~Code{0}) : static_cast<Code>(code);
  }
  return codes;
}

std::string digest_of_codes(DType dtype, std::span<const std::byte> packed, std::size_t n) {
  switch (bits_of(dtype)) {
    case 32:
      return sha256(plain_codes<std::uint32_t>(dtype, packed, n));
    case 16:
      return sha256(plain_codes<std::uint16_t>(dtype, packed, n));
    default:
      return sha256(plain_codes<std::uint8_t>(dtype, packed, n));
  }
}

std::string encode_digest(DType dtype, const std::string& source, std::size_t& n) {
  const auto unwanted = [dtype](double value) { return bits_of(dtype) < 8 && std::isnan(value); };
  std::vector<std::byte> out(16 << 20);
  if (source == "F32") {
    auto in = dense_f32();
    std::erase_if(in, unwanted);
    encode_f32(dtype, in, out, Overflow::kInfinity);
    n = in.size();
  } else {
    auto in = dense_f64();
    std::erase_if(in, unwanted);
    encode_f64(dtype, in, out, Overflow::kInfinity);
    n = in.size();
  }
  return digest_of_codes(dtype, out, n);
}

std::string decode_digest(DType dtype) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  std::vector<float> values(codes.size());
  decode_f32(dtype, std::as_bytes(std::span(codes)), values);
  for (float& value : values)
    if (std::isnan(value)) value = std::bit_cast<float>(0x7fc0'0000u);
  return sha256(values);
}

TEST(Golden, DenseInputsEncodeAsInTorchAndMlDtypes) {
  std::istringstream lines(read_file(kGolden + "digests.txt"));
  std::size_t checked = 0;
  for (std::string verb, type; lines >> verb >> type; ++checked) {
    std::string source, digest;
    const auto dtype = dtype_from_name(type);
    ASSERT_TRUE(dtype.has_value()) << type;
    if (verb == "decode") {
      lines >> digest;
      EXPECT_EQ(decode_digest(*dtype), digest) << type;
      continue;
    }
    std::size_t want = 0, n = 0;
    lines >> source >> want >> digest;
    EXPECT_EQ(encode_digest(*dtype, source, n), digest) << source << " to " << type;
    EXPECT_EQ(n, want) << type;
  }
  EXPECT_EQ(checked, 23u);
}

TEST(Golden, EveryCodeDecodesAsInMlDtypes) {
  for (DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz, DType::kF8E8M0,
                      DType::kF6E2M3, DType::kF6E3M2, DType::kF4}) {
    const std::string want = read_file(kGolden + "decode_" + std::string(name(dtype)) + ".bin");
    const unsigned width = bits_of(dtype);
    ASSERT_EQ(want.size(), std::size_t{4} << width) << name(dtype);
    std::vector<std::byte> packed((std::size_t{1} << width) * width / 8);
    for (std::size_t i = 0; i < (std::size_t{1} << width); ++i)
      for (unsigned bit = 0; bit < width; ++bit)
        packed[(i * width + bit) / 8] |= static_cast<std::byte>(((i >> bit) & 1) << ((i * width + bit) % 8));
    std::vector<float> got(std::size_t{1} << width);
    decode_f32(dtype, packed, got);
    for (std::size_t i = 0; i < got.size(); ++i) {
      float value;
      std::memcpy(&value, want.data() + 4 * i, 4);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(got[i])) << name(dtype) << " code " << i;
      } else {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(value))
            << name(dtype) << " code " << i;
      }
    }
  }
}

}  // namespace
}  // namespace wconv
