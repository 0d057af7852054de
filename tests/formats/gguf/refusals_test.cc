// One test for each way to refuse a file: code, message and byte offset.
#include <gtest/gtest.h>

#include <fstream>

#include "file_builder.h"

namespace wconv::gguf::test {
namespace {

using wconv::test::TempDir;

void expect_refused(std::span<const std::byte> bytes, ErrorCode code, std::string_view message, std::uint64_t offset) {
  const Refusal refused = refusal([&] { open(bytes); });
  EXPECT_EQ(refused.code, code) << refused.text;
  EXPECT_NE(refused.text.find(message), std::string::npos) << refused.text;
  EXPECT_EQ(refused.offset, offset) << refused.text;
  EXPECT_TRUE(refused.text.starts_with("m.gguf: ")) << refused.text;
}
void expect_corrupt(const FileBuilder& file, std::string_view message, std::uint64_t offset) {
  expect_refused(file.bytes(), ErrorCode::kCorrupt, message, offset);
}
void expect_unsupported(const FileBuilder& file, std::string_view message, std::uint64_t offset) {
  expect_refused(file.bytes(), ErrorCode::kUnsupported, message, offset);
}

constexpr std::uint64_t kTensorCountAt = 8, kKeyCountAt = 16, kFirstKeyAt = 24;
constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;

TEST(GgufRefusals, Magic) { expect_corrupt(FileBuilder().text("GGML").zeros(20), "does not begin with 'GGUF'", 0); }

TEST(GgufRefusals, MagicOnly) { expect_corrupt(FileBuilder().text("GGUF"), "version needs 4 bytes, 0 left", 4); }

TEST(GgufRefusals, Version) {
  expect_unsupported(FileBuilder(4).head(0, 0), "GGUF version 4; versions 1 to 3", 4);
  expect_unsupported(FileBuilder(0).head(0, 0), "GGUF version 0", 4);
  expect_unsupported(FileBuilder(0x01010101).head(0, 0), "GGUF version 16843009", 4);
}

TEST(GgufRefusals, Counts) {
  expect_corrupt(FileBuilder().head(0, kHuge).zeros(40), "metadata count is 9223372036854775808", kKeyCountAt);
  expect_corrupt(FileBuilder().head(0, 5).zeros(40), "metadata count is 5, at least 13 bytes each, but 40",
                 kKeyCountAt);
  expect_corrupt(FileBuilder().head(~std::uint64_t{0}, 0).zeros(40), "tensor count is 184467", kTensorCountAt);
  expect_corrupt(FileBuilder().head((kHuge >> 2) + 1, 0).zeros(40), "tensor count is 23058430092136939",
                 kTensorCountAt);
  expect_corrupt(FileBuilder(1).head(0, 0xffff'ffff).zeros(40), "metadata count is 4294967295, at least 9 bytes", 12);
}

TEST(GgufRefusals, TensorsAfterLongMetadata) {
  FileBuilder file;  // 3 tensors could follow the counts, but not the metadata
  file.head(3, 1).key("k", MetaType::kString).string(std::string(80, 'x'));
  expect_corrupt(file, "tensor count is 3, at least 24 bytes each, but 0", kTensorCountAt);
}

TEST(GgufRefusals, MetadataStrings) {
  for (const std::uint64_t size : {std::uint64_t{5}, kHuge, ~std::uint64_t{0}}) {
    const std::string says = "string says it has " + std::to_string(size) + " bytes, 4 are left";
    expect_corrupt(FileBuilder().head(0, 1).key("k", MetaType::kString).u64(size).zeros(4), "key 'k': " + says, 37);
  }
  expect_corrupt(FileBuilder().head(0, 1).u64(kHuge).zeros(40), "metadata key says it has 9223372036854775808",
                 kFirstKeyAt);
}

TEST(GgufRefusals, MetadataTypes) {
  expect_corrupt(FileBuilder().head(0, 1).string("k").u32(13).zeros(40),
                 "key 'k': value type 13; GGUF has types 0 to 12", 33);
  expect_corrupt(FileBuilder().head(0, 1).key("k", MetaType::kArray).u32(99).u64(0),
                 "key 'k': element type 99; GGUF has types 0 to 12", 37);
}

TEST(GgufRefusals, MetadataNumbersCutOff) {
  expect_corrupt(FileBuilder().head(0, 1).key("k", MetaType::kU64).zeros(7), "key 'k': u64 value needs 8 bytes, 7 left",
                 37);
}

TEST(GgufRefusals, Arrays) {
  const auto array = [](MetaType element, std::uint64_t n) {
    return FileBuilder()
        .head(0, 1)
        .key("k", MetaType::kArray)
        .u32(static_cast<std::uint32_t>(element))
        .u64(n)
        .zeros(24);
  };
  expect_corrupt(array(MetaType::kU8, 25), "an array of 25 elements (u8), but 24 bytes are left", 37);
  expect_corrupt(array(MetaType::kF64, 4), "an array of 4 elements (f64)", 37);
  expect_corrupt(array(MetaType::kU32, kHuge), "an array of 9223372036854775808 elements (u32)", 37);
  expect_corrupt(array(MetaType::kString, kHuge >> 2), "an array of 2305843009213693952 elements (string)", 37);
  expect_corrupt(array(MetaType::kArray, kHuge >> 2), "elements (array)", 37);
}

TEST(GgufRefusals, ArraysTooDeep) {
  FileBuilder file;
  file.head(0, 1).key("k", MetaType::kArray);
  for (int depth = 0; depth < 100'000; ++depth) file.u32(static_cast<std::uint32_t>(MetaType::kArray)).u64(1);
  expect_unsupported(file, "key 'k': arrays more than 16 deep", 37 + 16 * 12);
}

TEST(GgufRefusals, DuplicateKeys) {
  FileBuilder file;
  file.head(0, 3).key("k", MetaType::kU8).u8(1).key("j", MetaType::kU8).u8(1);
  const std::uint64_t at = file.size();
  expect_corrupt(file.key("k", MetaType::kU8).u8(1), "metadata key 'k' is there twice; the first is at byte 24", at);
}

TEST(GgufRefusals, LongKey) {
  expect_unsupported(FileBuilder().head(0, 1).key(std::string(65536, 'k'), MetaType::kU8).u8(0),
                     "metadata key has 65536 bytes; at most 65535", kFirstKeyAt);
}

TEST(GgufRefusals, Alignment) {
  for (const std::uint32_t alignment : {0u, 3u, 48u, 0xffff'ffffu})
    expect_corrupt(FileBuilder().head(0, 1).alignment(alignment),
                   "general.alignment is " + std::to_string(alignment) + "; it must be a power of two", kFirstKeyAt);
  expect_corrupt(FileBuilder().head(0, 1).key("general.alignment", MetaType::kU64).u64(kHuge),
                 "general.alignment has the type u64; it must be u32", kFirstKeyAt);
}

// A file with no keys and one tensor entry, at byte 24, over 64 bytes of data.
FileBuilder one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type, std::uint64_t offset) {
  return FileBuilder().head(1, 0).tensor("t", dims, type, offset).pad(32).zeros(64);
}
constexpr std::uint64_t kDimsCountAt = 33, kDimsAt = 37;

TEST(GgufRefusals, Dimensions) {
  expect_corrupt(one_tensor({1, 1, 1, 1, 1}, kTypeF32, 0), "tensor 't': n_dims is 5; ggml allows 4", kDimsCountAt);
  expect_corrupt(FileBuilder().head(1, 0).string("t").u32(~0u).zeros(64), "n_dims is 4294967295", kDimsCountAt);
  expect_corrupt(one_tensor({1, ~std::uint64_t{1}}, kTypeF32, 0), "tensor 't': dimension 1 is -2", kDimsAt + 8);
}

TEST(GgufRefusals, Sizes) {
  const std::uint64_t half = std::uint64_t{1} << 32;
  expect_corrupt(one_tensor({half, half}, kTypeF32, 0), "'t': the product of the dimensions does not fit 64 bits", 24);
  expect_corrupt(one_tensor({half, half / 2, 1}, kTypeF32, 0), "'t': the tensor's size does not fit 62 bits", 24);
  expect_corrupt(one_tensor({31}, kTypeQ8_0, 0), "Q8_0 packs blocks of 32 elements, but the innermost dimension is 31",
                 24);
  expect_corrupt(one_tensor({16, 2}, kTypeQ8_0, 0), "the innermost dimension is 16", 24);
}

// CVE-2025-53630 and CVE-2026-27940: sums of padded sizes that wrap around to a small allocation.
TEST(GgufRefusals, SizesWhoseSumWrapsAround) {
  const std::uint64_t quarter = std::uint64_t{1} << 60;  // elements: 2^62 bytes are the most
  for (const std::uint64_t elements : {quarter - 8, quarter / 2, std::uint64_t{1} << 32}) {
    FileBuilder file;
    file.head(5, 0);
    for (int i = 0; i < 5; ++i) file.tensor("t" + std::to_string(i), {elements}, kTypeF32, i * 32u);
    expect_corrupt(file.pad(32).zeros(256), "end outside the file", 24);
  }
}

// A dimension of 0 makes the product 0 whatever the others are: such a tensor has no bytes, and takes none.
TEST(GgufRefusals, NoneForHugeDimensionsBesideAZero) {
  const std::uint64_t huge = (std::uint64_t{1} << 63) - 1;
  for (const std::vector<std::uint64_t>& dims :
       std::vector<std::vector<std::uint64_t>>{{0, huge, huge, huge}, {huge, 0, huge, huge}, {32, huge, huge, 0}}) {
    try {
      const Model model = open(one_tensor(dims, kTypeF32, 0));
      EXPECT_EQ(model.tensors.at(0).data->size_bytes(), 0u);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    }
  }
}

TEST(GgufRefusals, RemovedAndUnknownTypes) {
  const auto type_at = kDimsAt + 8;
  expect_unsupported(one_tensor({1}, 4, 0), "'t': its type Q4_2 (ggml type 4) was removed", type_at);
  expect_unsupported(one_tensor({1}, 5, 0), "Q4_3", type_at);
  for (const auto& [id, name] : {std::pair{31u, "Q4_0_4_4"}, {32u, "Q4_0_4_8"}, {33u, "Q4_0_8_8"}})
    expect_unsupported(
        one_tensor({32}, id, 0),
        std::string(name) + " (ggml type " + std::to_string(id) + ") was removed from ggml; repack from Q4_0", type_at);
  for (const auto& [id, name] : {std::pair{36u, "IQ4_NL_4_4"}, {37u, "IQ4_NL_4_8"}, {38u, "IQ4_NL_8_8"}})
    expect_unsupported(
        one_tensor({32}, id, 0),
        std::string(name) + " (ggml type " + std::to_string(id) + ") was removed from ggml; repack from IQ4_NL",
        type_at);
  for (const std::uint32_t id : {43u, 99u, ~0u})
    expect_unsupported(one_tensor({32}, id, 0), "'t': its type " + std::to_string(id) + " is none that ggml had",
                       type_at);
}

TEST(GgufRefusals, Offsets) {
  expect_corrupt(one_tensor({2}, kTypeF32, 4), "'t': its offset 4 is not a multiple of the alignment 32", 24);
  expect_corrupt(one_tensor({2}, kTypeF32, 64), "'t': its 8 bytes at offset 64 end outside the file, which has 64", 24);
  expect_corrupt(one_tensor({17}, kTypeF32, 0), "its 68 bytes at offset 0 end outside", 24);
  expect_corrupt(one_tensor({2}, kTypeF32, 0 - std::uint64_t{32}), "at offset 18446744073709551584 end outside", 24);
  FileBuilder aligned;
  aligned.head(1, 1).alignment(64);
  const std::uint64_t entry = aligned.size();
  expect_corrupt(aligned.tensor("t", {2}, kTypeF32, 32).pad(64).zeros(64), "32 is not a multiple of the alignment 64",
                 entry);
}

TEST(GgufRefusals, AlignmentThatPushesTheDataOutOfTheFile) {
  FileBuilder file;
  file.head(1, 1).alignment(0x8000'0000);
  const std::uint64_t entry = file.size();
  expect_corrupt(file.tensor("t", {2}, kTypeF32, 0).pad(32).zeros(64), "its 8 bytes at offset 0 end outside", entry);
}

TEST(GgufRefusals, Overlap) {
  FileBuilder file;
  file.head(2, 0).tensor("t", {9}, kTypeF32, 0);
  const std::uint64_t entry = file.size();
  file.tensor("u", {8}, kTypeF32, 32).pad(32).zeros(96);
  expect_corrupt(file, "tensor 'u': its data at offset 32 overlaps that of tensor 't', which ends at 36", entry);
}

TEST(GgufRefusals, OverlapOfEqualRanges) {
  FileBuilder file;
  file.head(2, 0).tensor("t", {8}, kTypeF32, 0);
  const std::uint64_t entry = file.size();
  file.tensor("u", {8}, kTypeF32, 0).pad(32).zeros(96);
  expect_corrupt(file, "tensor 'u': its data at offset 0 overlaps that of tensor 't'", entry);
}

TEST(GgufRefusals, DuplicateTensors) {
  FileBuilder file;
  file.head(3, 0).tensor("t", {8}, kTypeF32, 0).tensor("s", {8}, kTypeF32, 32);
  const std::uint64_t entry = file.size();
  file.tensor("t", {8}, kTypeF32, 64).pad(32).zeros(96);
  expect_corrupt(file, "tensor 't': two tensors have this name; the entry of the first is at byte 24", entry);
}

TEST(GgufRefusals, BlockTypesOfBigEndianFiles) {
  FileBuilder file(3, Order::kBig);
  file.head(1, 0).tensor("t", {32}, kTypeQ8_0, 0).pad(32).zeros(64);
  expect_unsupported(file, "tensor 't': it is Q8_0 in a big-endian file", 24);
}

TEST(GgufRefusals, AKeyOfACheckpoint) {
  const auto file = File::from_bytes("m.gguf", FileBuilder().head(0, 0).bytes());
  const Refusal refused = refusal([&] { gguf_reader().open(file, {.key = "model"}); });
  EXPECT_EQ(refused.code, ErrorCode::kUsage);
  EXPECT_NE(refused.text.find("--key"), std::string::npos);
}

// Header bombs: huge files that are almost all holes.

std::string sparse(const TempDir& dir, const FileBuilder& head) {
  const std::string path = dir / "bomb.gguf";
  wconv::test::write_file(path, head.bytes());
  std::filesystem::resize_file(path, std::uint64_t{64} << 30);
  return path;
}

// MiB that `action` holds at its peak; 0 under sanitizers, which need memory of their own.
std::uint64_t peak_mib(const std::function<void()>& action) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  action();
  return 0;
#else
  const auto kib = [](const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(field)) return std::stoul(line.substr(field.size()));
    return 0ul;
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is now what is held
  const auto before = kib("VmRSS:");
  EXPECT_GT(before, 0u);
  action();
  return (kib("VmHWM:") - before) / 1024;
#endif
}

void expect_bomb_refused(const FileBuilder& head, std::string_view message) {
  const TempDir dir;
  const std::string path = sparse(dir, head);
  Refusal refused;
  EXPECT_LT(peak_mib([&] { refused = refusal([&] { open_path(path); }); }), 50u) << message;
  EXPECT_NE(refused.text.find(message), std::string::npos) << refused.text;
  EXPECT_TRUE(refused.offset.has_value()) << refused.text;
}

TEST(GgufBombs, HugeCounts) {
  expect_bomb_refused(FileBuilder().head(0, 1 << 30), "would take more than 128 MiB of memory");
  expect_bomb_refused(FileBuilder().head(1 << 30, 0), "tensor count is 1073741824; at most 262144");
  expect_bomb_refused(FileBuilder().head(1 << 18, 0), "two tensors have this name");
}

TEST(GgufBombs, HugeStrings) {
  expect_bomb_refused(FileBuilder().head(0, 1).key("k", MetaType::kString).u64(5ull << 30),
                      "string has 5368709120 bytes");
  expect_bomb_refused(FileBuilder().head(0, 1).u64(5ull << 30), "metadata key has 5368709120 bytes; at most 65535");
  expect_bomb_refused(FileBuilder().head(1, 0).u64(5ull << 30), "tensor name has 5368709120 bytes; at most 65535");
}

TEST(GgufBombs, HugeArrays) {
  for (const MetaType element : {MetaType::kU8, MetaType::kF64, MetaType::kString, MetaType::kArray})
    expect_bomb_refused(
        FileBuilder().head(0, 1).key("k", MetaType::kArray).u32(static_cast<std::uint32_t>(element)).u64(1 << 30),
        "key 'k': the metadata up to here would take more than 128 MiB of memory");
}

TEST(GgufBombs, AFaultAfterMuchSoundMetadataCostsNoMemory) {
  FileBuilder file;
  file.head(0, 2).key("k", MetaType::kArray).u32(static_cast<std::uint32_t>(MetaType::kString)).u64(3'000'000);
  file.zeros(3'000'000 * 8).u64(kHuge).zeros(20);
  const TempDir dir;
  const std::string path = dir / "m.gguf";
  wconv::test::write_file(path, file.bytes());
  Refusal refused;
  EXPECT_LT(peak_mib([&] { refused = refusal([&] { open_path(path); }); }), 2u);
  EXPECT_EQ(refused.offset, 24u + 8 + 1 + 4 + 12 + 24'000'000);
}

TEST(GgufBombs, LongNames) {
  FileBuilder file;
  file.head(2000, 0);
  for (int i = 0; i < 2000; ++i) file.tensor(std::string(60'000, 'n') + std::to_string(i), {0}, kTypeF32, 0);
  expect_unsupported(file, "the tensor table is longer than 32 MiB", 24);
}

}  // namespace
}  // namespace wconv::gguf::test
