#include "formats/pytorch/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "build.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv::pytorch {
namespace {

using test::file_of;
using test::le;
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
  expect_refused(std::string(4096, '\x3f'), "this is no PyTorch checkpoint");
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

// Records that share data (D. Fifield's bomb): the second entry points to the first one's header.
TEST(ZipArchive, TwoEntriesOfOneRecordAreRefused) {
  std::string zip = make_zip({{"a", "abc"}, {"b", "abc"}});
  const std::size_t second = zip.rfind("PK\x01\x02");
  zip.replace(second + 42, 4, le(0, 4));
  expect_refused(zip, "another name than the directory");
  zip[second + 46] = 'a';
  expect_refused(zip, "overlap");
}

// The end records of an archive of one record, with a zip64 end record and its locator between.
struct Zip64 {
  std::uint64_t locator_offset = 0, entries = 1, size = 0, offset = 0;
  std::string mark = "PK\x06\x06";
};
std::string zip64_of(const std::function<void(Zip64&)>& change) {
  const std::string plain = make_zip({{"a", "abc"}});
  const std::string body = plain.substr(0, plain.size() - 22);
  Zip64 end;
  end.locator_offset = body.size();
  end.offset = body.find("PK\x01\x02");
  end.size = body.size() - end.offset;
  change(end);
  return body + end.mark + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(end.entries, 8) + le(end.entries, 8) +
         le(end.size, 8) + le(end.offset, 8) + "PK\x06\x07" + le(0, 4) + le(end.locator_offset, 8) + le(1, 4) +
         "PK\x05\x06" + le(0, 4) + le(0xffff, 2) + le(0xffff, 2) + le(0xffff'ffff, 4) + le(0xffff'ffff, 4) + le(0, 2);
}

TEST(ZipArchive, Zip64EndRecordsThatLieAreRefused) {
  EXPECT_EQ(ZipArchive(file_of(zip64_of([](Zip64&) {}))).records().size(), 1u);
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  for (const std::uint64_t entries : {std::uint64_t{2}, kHuge, ~std::uint64_t{0}})
    expect_refused(zip64_of([&](Zip64& end) { end.entries = entries; }), "its end record says");
  for (const std::uint64_t offset : {kHuge, ~std::uint64_t{0}, std::uint64_t{1000}})
    expect_refused(zip64_of([&](Zip64& end) { end.offset = offset; }), "it must lie before");
  for (const std::uint64_t size : {kHuge, ~std::uint64_t{0}, std::uint64_t{1000}})
    expect_refused(zip64_of([&](Zip64& end) { end.size = size; }), "it must lie before");
  for (const std::uint64_t at : {kHuge, ~std::uint64_t{0}})
    expect_refused(zip64_of([&](Zip64& end) { end.locator_offset = at; }), "the zip64 locator points to");
  expect_refused(zip64_of([](Zip64& end) { end.locator_offset = 0; }), "no zip64 end record");
  expect_refused(zip64_of([](Zip64& end) { end.mark = "PK\x06\x08"; }), "no zip64 end record");
  std::string two_counts = zip64_of([](Zip64&) {});
  two_counts.replace(two_counts.size() - 14, 4, le(7, 2) + le(7, 2));
  expect_refused(two_counts, "the two end records of the zip archive disagree");
}

// One record whose sizes stand in a zip64 field.
std::string zip64_record(std::uint64_t size, std::uint64_t stored, std::uint16_t field = 1) {
  const std::string extra = le(field, 2) + le(16, 2) + le(size, 8) + le(stored, 8);
  const std::uint64_t crc = ::crc32(0, reinterpret_cast<const Bytef*>("abc"), 3);
  const std::string local = "PK\x03\x04" + le(45, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc, 4) + le(~0u, 4) +
                            le(~0u, 4) + le(1, 2) + le(extra.size(), 2) + "a" + extra + "abc";
  const std::string entry = "PK\x01\x02" + le(45, 2) + le(45, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc, 4) +
                            le(~0u, 4) + le(~0u, 4) + le(1, 2) + le(extra.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) +
                            le(0, 4) + le(0, 4) + "a" + extra;
  return local + entry + "PK\x05\x06" + le(0, 4) + le(1, 2) + le(1, 2) + le(entry.size(), 4) + le(local.size(), 4) +
         le(0, 2);
}

TEST(ZipArchive, Zip64FieldsThatLieAreRefused) {
  EXPECT_EQ(ZipArchive(file_of(zip64_record(3, 3))).records().at(0).size, 3u);
  expect_refused(zip64_record(4, 4), "the zip directory begins at");
  for (const std::uint64_t huge : {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 40})
    expect_refused(zip64_record(huge, huge), "the zip directory begins at");
  expect_refused(zip64_record(3, ~std::uint64_t{0}), "impossible");
  expect_refused(zip64_record(3, 3, 2), "needs a zip64 field, which is missing");
}

// A bomb unpacks to no more than its entry says, and a pickle to no more than 64 MiB.
TEST(ZipArchive, DeflateBombsAreRefused) {
  const std::string zeros(std::size_t{80} << 20, '\0');
  const std::string bomb = make_zip({{"r/data.pkl", zeros, true}});
  EXPECT_LT(bomb.size(), 100'000u);
  const ZipArchive archive(file_of(bomb));
  try {
    archive.content(archive.records().at(0));
    FAIL() << "unpacked";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is deflated and 83886080 bytes long; 67108864 are allowed"));
  }
  std::string hidden = bomb;  // claims 1000 bytes in both places
  hidden.replace(22, 4, le(1000, 4));
  hidden.replace(hidden.rfind("PK\x01\x02") + 24, 4, le(1000, 4));
  const ZipArchive small(file_of(hidden));
  try {
    small.content(small.records().at(0));
    FAIL() << "unpacked";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it unpacks to more than the 1000 bytes it claims"));
  }
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
