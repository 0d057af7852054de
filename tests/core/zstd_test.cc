// Files whose content is zstd: they read as what they unpack to, whatever frames they consist of, or are refused.
#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <random>

#include "core/zstd_bytes.h"
#include "core/zstd_file.h"
#include "core/zstd_writer.h"
#include "support/support.h"
#include "wconv/error.h"

namespace wconv {
namespace {

using namespace wconv::test;

std::string golden(const std::string& name) { return std::string(WCONV_TEST_DATA) + "/core/zstd/" + name; }

TEST(Zstd, FilesOfTheZstdToolsAreReadAsTheirContent) {
  const std::string content = test::read_file(golden("content"));
  for (const std::string name : {"single", "no-checksum", "size-not-stated", "level-19", "plain-literals", "two-frames",
                                 "pzstd", "empty-frames"}) {
    const auto file = open_unpacked(golden(name + ".zst"));
    ASSERT_EQ(file->size(), content.size()) << name;
    EXPECT_TRUE(file->is_unpacked());
    EXPECT_FALSE(file->is_on_disk());
    EXPECT_EQ(file->path(), golden(name + ".zst"));
    EXPECT_EQ(file->stored().size(), std::filesystem::file_size(golden(name + ".zst")));
    EXPECT_TRUE(equal(read_whole(*file), std::as_bytes(std::span(content)))) << name;
    EXPECT_TRUE(equal(read(*file, 691, 20), std::as_bytes(std::span(content)).subspan(691, 20))) << name;
    EXPECT_THROW(read(*file, content.size() - 1, 2), Error) << name;
  }
}

TEST(Zstd, ThePlainFileGoesFirst) {
  EXPECT_FALSE(open_unpacked(golden("content"))->is_unpacked());
  EXPECT_EQ(open_unpacked(golden("single"))->path(), golden("single.zst"));
  try {
    open_unpacked(golden("none"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMissing);
    EXPECT_EQ(error.file(), golden("none"));
  }
}

TEST(Zstd, WhatIsSmallerThanAMagicNumberIsNoZstd) {
  const Bytes bytes = content_of(3);
  EXPECT_FALSE(open(bytes)->is_unpacked());
}

TEST(Zstd, LargeWindowsAndDictionariesAreRefused) {
  for (const auto& [name, words] :
       {std::pair("window.zst", "window of 268435456 bytes"), {"dictionary.zst", "needs a dictionary"}}) {
    try {
      open_unpacked(golden(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
      EXPECT_EQ(error.file(), golden(name));
    }
  }
}

TEST(Zstd, AnyRangeOfAnySizeReadsAsInTheContent) {
  std::mt19937 random(7);
  for (const std::size_t frame : {1u, 100u, 4096u}) {
    for (const std::size_t size : {frame - 1, frame, frame + 1, 3 * frame - 1, 3 * frame, 3 * frame + 1}) {
      if (size == 0) continue;
      const Bytes content = content_of(size);
      const Packed packed = pack(content, frame);
      for (const Bytes& stored : {packed.file, packed.seekable()}) {
        const auto file = open(stored);
        ASSERT_EQ(file->size(), size);
        EXPECT_TRUE(equal(read_whole(*file), content)) << frame << ' ' << size;
        for (int i = 0; i < 50; ++i) {
          const std::uint64_t begin = random() % size, bytes = random() % (size - begin + 1);
          ASSERT_TRUE(equal(read(*file, begin, bytes), std::span(content).subspan(begin, bytes)))
              << frame << ' ' << size << ' ' << begin << ' ' << bytes;
        }
      }
    }
  }
}

TEST(Zstd, ASeekTableMayCountSkippableAndEmptyFrames) {
  const Bytes content = content_of(1000);
  Packed packed = pack(content, 400);
  Bytes skippable;
  append_u32(skippable, 0x184D2A50);
  append_u32(skippable, 3);
  append(skippable, Bytes(3));
  const Bytes empty = frame_of({});
  for (const Bytes& frame : {skippable, empty}) {
    packed.file.insert(packed.file.begin(), frame.begin(), frame.end());
    packed.entries.insert(packed.entries.begin(), {static_cast<std::uint32_t>(frame.size()), 0});
  }
  EXPECT_TRUE(equal(read_whole(*open(packed.seekable())), content));
}

TEST(Zstd, TheChecksumsOfASeekTableAreCompared) {
  // XXH64 of nothing but the bytes "a": d24ec4f1a98c6e5b (the reference implementation's own test vector).
  const Bytes content(1, std::byte{'a'});
  Packed packed = pack(content, 1, false);
  Bytes stored = packed.file;
  packed.entries[0].checksum = 0xa98c6e5b;
  append(stored, table_of(packed.entries, true));
  EXPECT_TRUE(equal(read_whole(*open(stored)), content));
  stored = packed.file;
  packed.entries[0].checksum ^= 1;
  append(stored, table_of(packed.entries, true));
  expect_refused(stored, ErrorCode::kCorrupt, "do not have the seek table's checksum", 0);
}

TEST(Zstd, ATableThatLiesIsRefused) {
  const Bytes content = content_of(3000);
  const Packed good = pack(content, 1000);
  const auto with = [&](auto change) {
    Packed packed = good;
    change(packed.entries);
    return packed.seekable();
  };
  const std::uint64_t end = good.file.size();
  expect_refused(with([](auto& e) { e[1].content += 1; }), ErrorCode::kCorrupt, "another size than the 1001 bytes",
                 good.entries[0].stored);
  expect_refused(with([](auto& e) { e[1].content -= 1; }), ErrorCode::kCorrupt, "another size than the 999 bytes",
                 good.entries[0].stored);
  expect_refused(with([](auto& e) { e[0].stored += 1, e[1].stored -= 1; }), ErrorCode::kCorrupt, "no zstd frame of", 0);
  expect_refused(with([](auto& e) { e[2].stored += 1; }), ErrorCode::kCorrupt, "are left", end + 8 + 16);
  expect_refused(with([](auto& e) { e[2].stored -= 1; }), ErrorCode::kCorrupt, "end here", end - 1);
  expect_refused(with([](auto& e) { e[2].stored = 0; }), ErrorCode::kCorrupt, "has 0 bytes", end + 8 + 16);
  expect_refused(with([](auto& e) { e.pop_back(); }), ErrorCode::kCorrupt, "end here");
  // Content that the table hides.
  expect_refused(with([](auto& e) { e[1].content = 0; }), ErrorCode::kCorrupt, "without content",
                 good.entries[0].stored);
  Bytes reserved = good.seekable();
  reserved[reserved.size() - 5] = std::byte{0x04};
  expect_refused(reserved, ErrorCode::kUnsupported, "reserved", reserved.size() - 5);
  Bytes count = good.seekable();
  count[count.size() - 7] = std::byte{0xff};
  expect_refused(count, ErrorCode::kCorrupt, "more than the file has room for", count.size() - 9);
  Bytes fewer = good.seekable();
  fewer[fewer.size() - 9] = std::byte{2};
  expect_refused(fewer, ErrorCode::kCorrupt, "does not begin here", end + 8);
}

TEST(Zstd, EveryPrefixIsRefused) {
  const Bytes content = content_of(3000);
  for (const Bytes& stored : {pack(content, 1000).seekable(), frame_of(content), frame_of(content, 1, true, false)}) {
    for (std::size_t size = 4; size < stored.size(); ++size) {
      const auto prefix = std::span(stored).first(size);
      Bytes got;
      try {
        got = read_whole(*open(prefix));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
        ASSERT_TRUE(error.offset()) << error.what();
        continue;
      }
      // At the end of a frame only the seek table is missing: that is a whole file of fewer frames.
      ASSERT_TRUE(equal(got, std::span(content).first(got.size())) && got.size() % 1000 == 0) << size;
    }
  }
}

TEST(Zstd, EveryDamagedByteIsFoundByTheChecksumsOrHarmless) {
  const Bytes content = content_of(2000);
  for (const bool checksum : {true, false}) {
    for (const Bytes& stored : {pack(content, 700, checksum).seekable(), pack(content, 700, checksum).file,
                                frame_of(content, 1, checksum, false)}) {
      for (std::size_t at = 0; at < stored.size(); ++at) {
        for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
          Bytes damaged = stored;
          damaged[at] ^= std::byte{static_cast<unsigned char>(flip)};
          try {
            const auto file = open(damaged);
            // A seek table may claim 4 GiB now.
            const Bytes got = read(*file, 0, std::min<std::uint64_t>(file->size(), 1 << 20));
            if (checksum && file->is_unpacked()) {
              EXPECT_TRUE(equal(got, content)) << "byte " << at << ' ' << flip;
            }
          } catch (const Error& error) {
            EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported) << error.what();
            EXPECT_TRUE(error.offset()) << error.what();
          }
        }
      }
    }
  }
}

TEST(Zstd, WhatFollowsTheFramesIsRefused) {
  const Bytes content = content_of(100);
  Bytes stored = frame_of(content);
  const std::uint64_t end = stored.size();
  append(stored, std::as_bytes(std::span("tail", 4)));
  expect_refused(stored, ErrorCode::kCorrupt, "something follows it", end);
  stored.resize(end + 2);
  expect_refused(stored, ErrorCode::kCorrupt, "", end);
}

TEST(ZstdWriter, WritesWhatTheReaderReads) {
  for (const std::size_t size : {std::size_t{1}, kZstdFrameBytes - 1, kZstdFrameBytes, kZstdFrameBytes + 1,
                                 2 * kZstdFrameBytes, 3 * kZstdFrameBytes + 17}) {
    const Bytes content = content_of(size);
    Bytes file;
    std::vector<std::uint32_t> frames;
    ZstdCompressor compressor(3);
    for (std::size_t done = 0; done < size; done += kZstdFrameBytes) {
      const auto part = std::span(content).subspan(done, std::min(kZstdFrameBytes, size - done));
      Bytes out(zstd_frame_bound(part.size()));
      out.resize(compressor.compress(part, out));
      frames.push_back(static_cast<std::uint32_t>(out.size()));
      append(file, out);
    }
    append(file, zstd_seek_table(frames, size));
    EXPECT_LE(file.size(), zstd_file_bound(size));
    EXPECT_TRUE(equal(read_whole(*open(file)), content)) << size;
    Bytes by_library(size);
    EXPECT_EQ(ZSTD_decompress(by_library.data(), size, file.data(), file.size()), size);
    EXPECT_TRUE(equal(by_library, content)) << size;
  }
  const Bytes noise = [] {
    std::mt19937 random(3);
    Bytes bytes(2 * kZstdFrameBytes + 5);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }();
  EXPECT_LE(frame_of(noise).size(), zstd_file_bound(noise.size()));
}

}  // namespace
}  // namespace wconv
