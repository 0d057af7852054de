#include "formats/pytorch/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

using test::file_of;
using test::make_zip;
using test::ZipEntry;
using testing::HasSubstr;

std::string bytes(const TensorData& data) {
  std::string text(data.size_bytes(), '\0');
  data.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void expect_refused(const std::string& zip, const std::string& message) {
  try {
    const ZipArchive archive(file_of(zip));
    FAIL() << "accepted; should say: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(exit_status(error.code()), 65);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(ZipArchive, ReadsStoredAndDeflatedRecords) {
  const std::string long_text(100'000, 'a');
  const ZipArchive archive(
      file_of(make_zip({{"r/a", "abc"}, {"r/b", long_text, true}, {"r/empty", ""}, {"r/none", "", true}})));
  ASSERT_EQ(archive.records().size(), 4u);
  EXPECT_EQ(bytes(*archive.data(*archive.find("r/a"))), "abc");
  EXPECT_TRUE(archive.data(*archive.find("r/a"))->file_range());
  EXPECT_EQ(bytes(*archive.data(*archive.find("r/b"))), long_text);
  EXPECT_FALSE(archive.data(*archive.find("r/b"))->file_range());
  EXPECT_EQ(bytes(*archive.data(*archive.find("r/empty"))), "");
  EXPECT_EQ(bytes(*archive.data(*archive.find("r/none"))), "");
  EXPECT_EQ(archive.find("r/c"), nullptr);
}

TEST(ZipArchive, ReadsAnyPartOfADeflatedRecord) {
  std::string text;
  for (unsigned i = 0; i < 300'000; ++i) text += static_cast<char>(i * i >> 3);
  const ZipArchive archive(file_of(make_zip({{"r/x", "one", true}, {"r/y", text, true}})));
  const auto data = archive.data(*archive.find("r/y"));
  std::string part(1000, '\0');
  data->read(123'456, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, text.substr(123'456, 1000));
  EXPECT_EQ(bytes(*archive.data(*archive.find("r/x"))), "one");
}

TEST(ZipArchive, RefusesWhatReadersCouldReadTwoWays) {
  expect_refused(make_zip({{"a", "1"}, {"a", "2"}}), "two records are called 'a'");
  expect_refused(make_zip({{"a", "1", false, 0, 0, 0xffff, "b"}}), "another name");
  expect_refused(make_zip({{"a", "12", false, 0, 0, 0xffff, "", -1}}), "another size or CRC-32");
  expect_refused(make_zip({{"a", "12", false, 0, 0, 0xffff, "", 0, 1}}), "another size or CRC-32");
  expect_refused(make_zip({{"a", std::string(40, 'x')}, {"b", "1", false, 0, 0, 0xffff, "", 0, 0, -30}}),
                 "no local header");
}

TEST(ZipArchive, RefusesFlagsAndMethodsThatHideData) {
  expect_refused(make_zip({{"a", "1", false, 1}}), "encrypted");
  expect_refused(make_zip({{"a", "1", false, 0, 1}}), "encrypted");
  expect_refused(make_zip({{"a", "1", false, 0x20}}), "zip flags 0x0020");
  expect_refused(make_zip({{"a", "1", false, 0, 0x2000}}), "zip flags 0x2000");
  expect_refused(make_zip({{"a", "1", false, 0, 0, 12}}), "method 12");
}

TEST(ZipArchive, RefusesImpossibleSizes) {
  expect_refused(make_zip({{"a", "abc", true, 8, 8, 0xffff, "", 1'000'000}}), "impossible");
  expect_refused(make_zip({{"a", "abc", false, 8, 8, 0xffff, "", 1000}}), "the zip directory begins at");
  expect_refused(make_zip({{"a", "abc", false, 0, 0, 0xffff, "", 0, 0, 100'000}}), "not before the zip directory");
  const std::string good = make_zip({{"a", "abc"}});
  expect_refused(good.substr(0, good.size() - 1), "zip directory missing");
  expect_refused(good.substr(0, 40), "zip directory missing, file is 40 bytes");
  expect_refused("", "zip directory missing, file is 0 bytes");
  std::string more = good;
  more[more.size() - 14] = 2;  // number of entries
  expect_refused(more, "split over several files");
}

TEST(ZipArchive, OverlappingRecordsAreRefused) {
  // The second record's header lies in the first one's data.
  const std::string inner = make_zip({{"b", "1"}});
  const std::string local = inner.substr(0, 30 + 1 + 1);
  expect_refused(make_zip({{"a", local}, {"b", "1", false, 0, 0, 0xffff, "", 0, 0, -32}}), "overlap");
}

TEST(ZipArchive, DamageInADeflatedRecordIsFoundWhenItIsRead) {
  std::string zip = make_zip({{"a", std::string(1000, 'x') + "yz", true}});
  zip[32] = static_cast<char>(zip[32] ^ 0x10);
  const ZipArchive archive(file_of(zip));
  EXPECT_THROW(bytes(*archive.data(*archive.find("a"))), Error);
}

TEST(ZipArchive, ChecksTheContentOfARecord) {
  const std::string good = make_zip({{"a", "abcdef"}});
  const ZipArchive archive(file_of(good));
  const auto content = archive.content(*archive.find("a"));
  EXPECT_EQ(content.end - content.begin, 6u);
  std::string bad = good;
  bad[32] = 'X';
  const ZipArchive damaged(file_of(bad));
  EXPECT_THROW(damaged.content(*damaged.find("a")), Error);
}

}  // namespace
}  // namespace wconv::pytorch
