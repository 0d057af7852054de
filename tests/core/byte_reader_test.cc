#include "wconv/byte_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/support.h"
#include "wconv/error.h"

namespace wconv {
namespace {

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

TEST(ByteReader, ReadsBothByteOrders) {
  const std::vector<std::byte> bytes = counted(16);
  ByteReader reader{std::span(bytes)};
  EXPECT_EQ(reader.u8("a"), 0x00);
  EXPECT_EQ(reader.u16("b"), 0x0e07);
  reader.set_endian(ByteReader::Endian::kBig);
  EXPECT_EQ(reader.u32("c"), 0x151c232au);
  EXPECT_EQ(reader.offset(), 7u);
}

TEST(ByteReader, RefusesWhatIsNotThereAndDoesNotMove) {
  const std::vector<std::byte> bytes = counted(6);
  ByteReader reader{std::span(bytes)};
  reader.skip(4, "head");
  try {
    reader.u32("tensor count");
    FAIL() << "read past the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_STREQ(error.what(), "tensor count needs 4 bytes, 2 left; cut short? (at byte 4)");
  }
  EXPECT_EQ(reader.offset(), 4u);
  EXPECT_THROW(reader.take(~std::uint64_t{0}, "hostile length"), Error);
  EXPECT_THROW(reader.skip(~std::uint64_t{0}, "hostile length"), Error);
  EXPECT_EQ(reader.u16("rest"), 0x231c);
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteReader, WindowOverAFileGivesTheSameBytesAsMemory) {
  const std::vector<std::byte> bytes = counted(300'000);
  const auto file = File::from_bytes("numbers", bytes);
  ByteReader reader(file);
  for (const std::uint64_t size : {1u, 65'535u, 65'536u, 3u, 100'000u, 0u, 7u}) {
    const std::uint64_t at = reader.offset();
    const auto got = reader.take(size, "part");
    EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at))) << at;
  }
  reader.seek(10);
  EXPECT_EQ(reader.u8("back"), std::to_integer<std::uint8_t>(bytes[10]));
  EXPECT_THROW(reader.seek(300'001), Error);
}

TEST(ByteReader, RangeOfAFileIsItsWorld) {
  const std::vector<std::byte> bytes = counted(100);
  const auto file = File::from_bytes("numbers", bytes);
  ByteReader reader(file, 10, 20);
  EXPECT_EQ(reader.remaining(), 10u);
  EXPECT_EQ(reader.offset(), 10u);
  EXPECT_THROW(reader.take(11, "x"), Error);
  EXPECT_THROW(ByteReader(file, 90, 101), Error);
}

TEST(ByteReader, LinesEndOrAreRefused) {
  const std::string text = "cos\nsystem\nrest";
  ByteReader reader{std::as_bytes(std::span(text))};
  EXPECT_EQ(reader.take_line("module", 100), "cos");
  EXPECT_EQ(reader.take_line("name", 100), "system");
  EXPECT_THROW(reader.take_line("name", 100), Error);
}

TEST(File, TellsWhatIsNoRegularFile) {
  const test::TempDir dir;
  EXPECT_THROW(
      try { File::open(dir / "absent"); } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kMissing);
        throw;
      },
      Error);
  EXPECT_THROW(
      try { File::open(dir.path().string()); } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        throw;
      },
      Error);
}

TEST(File, ShrinkingIsAnErrorWithTheOffset) {
  const test::TempDir dir;
  const std::string path = dir / "weights";
  std::ofstream(path) << std::string(1000, 'x');
  const auto file = File::open(path);
  std::filesystem::resize_file(path, 10);
  std::vector<std::byte> out(100);
  try {
    file->read(500, out);
    FAIL() << "read what is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("changed during the run"), std::string::npos);
    EXPECT_EQ(error.offset(), 500u);
  }
  EXPECT_THROW(file->check_unchanged(), Error);
}

TEST(Error, ComposesOneLineAndEscapes) {
  Error error(ErrorCode::kCorrupt, "is\nbad");
  error.in_file("a\x1b[31m.gguf").in_tensor("t").at(12).in_file("outer").at(99);
  EXPECT_STREQ(error.what(), "a\\x1b[31m.gguf: tensor 't': is\\nbad (at byte 12)");
  EXPECT_EQ(exit_status(error.code()), 65);
}

TEST(Printable, EscapesControlsBrokenUtf8AndBidiOverrides) {
  EXPECT_EQ(printable("weiß ok"), "weiß ok");
  EXPECT_EQ(printable("a\tb\r\x7f"), "a\\tb\\r\\x7f");
  EXPECT_EQ(printable("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // C1 control sequence introducer
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));                    // surrogate
  EXPECT_TRUE(is_utf8("\xf0\x9f\x98\x80"));
}

}  // namespace
}  // namespace wconv
