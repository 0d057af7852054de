#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "build.h"
#include "formats/pytorch/pickle.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

using test::file_of;
using test::le;
using testing::HasSubstr;

Pickle parse(const std::string& bytes) { return read_pickle(file_of(bytes), 0, bytes.size()); }

void expect_refused(const std::string& bytes, const std::string& message) {
  try {
    parse(bytes);
    FAIL() << "accepted; should say: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_TRUE(error.offset()) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

// What CPython 3.11 writes for [1, -2, 300, 70000, 2**40, True, None, 1.5, 'é', b'\x00\xff', (1,), {'a': [2]}].
TEST(Unpickler, ReadsEveryProtocolOfOneValue) {
  const std::string tail = "K\x01J\xfe\xff\xff\xffM\x2c\x01Jp\x11\x01" + std::string(1, '\0');
  const std::vector<std::string> forms = {
      "(lp0\nI1\naI-2\naI300\naI70000\naI1099511627776\naI01\naNaF1.5\naV\xe9\np1\na.",
      std::string("\x80\x02]q\0(", 6) + tail + "\x8a\x06" + std::string("\0\0\0\0\0\x01", 6) + "\x88NG?\xf8" +
          std::string(6, '\0') + "X" + le(2, 4) +
          "\xc3\xa9q\x01"
          "e.",
      "\x80\x04\x95" + le(47, 8) + "]\x94(" + tail + "\x8a\x06" + std::string("\0\0\0\0\0\x01", 6) + "\x88NG?\xf8" +
          std::string(6, '\0') +
          "\x8c\x02\xc3\xa9\x94"
          "e.          "};
  for (const std::string& form : forms) {
    const Pickle pickle = parse(form);
    ASSERT_EQ(pickle.kind(pickle.root), NodeKind::kList);
    const auto& items = pickle.items(pickle.root);
    ASSERT_EQ(items.size(), 9u);
    const std::vector<std::int64_t> numbers = {1, -2, 300, 70000, std::int64_t{1} << 40};
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(pickle.integer(items[i]), numbers[i]);
    EXPECT_EQ(pickle.kind(items[5]), NodeKind::kBool);
    EXPECT_EQ(pickle.kind(items[6]), NodeKind::kNone);
    EXPECT_EQ(pickle.real(items[7]), 1.5);
    EXPECT_EQ(pickle.text(items[8]), "\xc3\xa9");
  }
}

TEST(Unpickler, KeepsBigIntegersAsText) {
  const Pickle binary = parse("\x80\x02\x8a\x09" + std::string(8, '\0') + "\x01.");
  EXPECT_EQ(binary.kind(binary.root), NodeKind::kLong);
  EXPECT_EQ(binary.text(binary.root), "18446744073709551616");
  const auto long_text = [](const std::string& bytes) {
    const Pickle pickle = parse("\x80\x02\x8a" + le(bytes.size(), 1) + bytes + ".");
    return pickle.text(pickle.root);
  };
  EXPECT_EQ(long_text(std::string(8, '\xff') + "\xfe"), "-18446744073709551617");
  EXPECT_EQ(long_text(std::string(8, '\0') + "\xff"), "-18446744073709551616");
  const auto integer = [](const std::string& bytes) {
    const Pickle pickle = parse("\x80\x02\x8a" + le(bytes.size(), 1) + bytes + ".");
    EXPECT_EQ(pickle.kind(pickle.root), NodeKind::kInt);
    return pickle.integer(pickle.root);
  };
  EXPECT_EQ(integer(std::string(9, '\xff')), -1);  // bytes that repeat the sign
  EXPECT_EQ(integer(le(0x7fffffffffffffff, 8) + std::string(12, '\0')), 0x7fffffffffffffff);
  EXPECT_EQ(integer(le(std::uint64_t{1} << 63, 8) + '\xff'), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(long_text(le(std::uint64_t{1} << 63, 8) + '\0'), "9223372036854775808");
  const Pickle text = parse("L18446744073709551616L\n.");
  EXPECT_EQ(text.text(text.root), "18446744073709551616");
}

TEST(Unpickler, RecordsCallsAndRunsNone) {
  const Pickle pickle = parse("cos\nsystem\n(S'echo pwned'\ntR.");
  ASSERT_EQ(pickle.kind(pickle.root), NodeKind::kObject);
  const Object& object = pickle.object(pickle.root);
  EXPECT_EQ(pickle.global_name(object.callable), "os.system");
  EXPECT_EQ(pickle.text(pickle.items(object.args)[0]), "echo pwned");
  const Pickle stacked = parse("\x80\x04\x8c\x02os\x8c\x06system\x93)R.");
  EXPECT_EQ(stacked.global_name(stacked.object(stacked.root).callable), "os.system");
  const Pickle inst = parse("(S'x'\nios\nsystem\n.");
  EXPECT_EQ(inst.global_name(inst.object(inst.root).callable), "os.system");
}

TEST(Unpickler, MemoAndDictsAndState) {
  const Pickle pickle = parse(
      "\x80\x02]q\x05(K\x01h\x05"
      "e.");  // a list that holds itself
  EXPECT_EQ(pickle.items(pickle.root)[1], pickle.root);
  const Pickle object = parse(
      "\x80\x02"
      "cm\nC\n)\x81}U\x01xK\x07sb.");
  EXPECT_EQ(object.object(object.root).making, Making::kNew);
  const NodeId state = object.object(object.root).state;
  ASSERT_EQ(object.kind(state), NodeKind::kDict);
  EXPECT_EQ(object.integer(object.items(state)[1]), 7);
}

// A copy for each of the 100,000 objects would take gigabytes.
TEST(Unpickler, ObjectsOfOneDictOfKeywordsShareIt) {
  std::string ops = "\x80\x04](cm\nC\nq\x01)q\x02}q\x03(";
  for (int i = 0; i < 2000; ++i) ops += "U\x04" + fmt::format("{:04}", i) + "N";
  ops += "u";
  for (int i = 0; i < 100'000; ++i) ops += "h\x01h\x02h\x03\x92";
  const Pickle pickle = parse(ops + "e.");
  const auto& items = pickle.items(pickle.root);
  ASSERT_EQ(items.size(), 100'003u);
  for (const std::size_t i : {std::size_t{3}, items.size() - 1}) {
    EXPECT_EQ(pickle.object(items[i]).keywords, items[2]);
    EXPECT_TRUE(pickle.object(items[i]).pairs.empty());
  }
}

TEST(Unpickler, RefusesBrokenStreams) {
  expect_refused("", "ends without STOP");
  expect_refused("]", "ends without STOP");
  expect_refused(".", "empty stack");
  expect_refused("]].", "leaves 1 values");
  expect_refused("t.", "no mark");
  expect_refused("\x80\x06].", "protocol 6");
  expect_refused("h\x07.", "memo 7");
  expect_refused("\x80\x02]K\x01s.", "needs a value");
  expect_refused("]K\x01K\x02s.", "no dict");
  expect_refused(
      "K\x01K\x02"
      "a.",
      "no list");
  expect_refused("K\x01}b.", "BUILD");
  expect_refused("\x82\x01.", "extension");
  expect_refused("\x97.", "not in the file");
  expect_refused("\xff.", "opcode 0xff");
  expect_refused("Iabc\n.", "no integer");
  expect_refused("F1.5x\n.", "no float");
  expect_refused("Sabc\n.", "not quoted");
}

// A length is compared with what is left before anything is allocated.
TEST(Unpickler, RefusesLengthsPastTheEnd) {
  expect_refused("\x80\x04\x95" + le(std::uint64_t{1} << 40, 8) + ".", "frame");
  expect_refused("\x80\x04\x8d" + le(std::uint64_t{1} << 62, 8) + ".", "text");
  expect_refused("\x80\x04\x8e" + le(~std::uint64_t{0}, 8) + ".", "bytes");
  expect_refused("X" + le(100, 4) + "abc.", "text");
  expect_refused("\x8b" + le(static_cast<std::uint32_t>(-5), 4) + ".", "negative");
  expect_refused("T" + le(static_cast<std::uint32_t>(-1), 4) + ".", "negative");
}

}  // namespace
}  // namespace wconv::pytorch
