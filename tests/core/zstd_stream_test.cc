// Zstd files of large frames: read from the front, with bounded memory, and once more where a read goes back.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/zstd_bytes.h"
#include "wconv/error.h"

namespace wconv {
namespace {

using namespace wconv::test;

TEST(ZstdStream, ReadsForwardBackAndFromManyThreads) {
  const Bytes content = content_of(60'000'001);  // one frame of more than 8 MiB
  const Bytes stored = frame_of(content);
  const auto check = [&](const File& file, std::uint64_t begin, std::uint64_t size) {
    ASSERT_TRUE(equal(read(file, begin, size), std::span(content).subspan(begin, size))) << begin;
  };
  const auto file = open(stored);
  ASSERT_EQ(file->size(), content.size());
  for (const std::uint64_t begin : {0u, 4000u, 10u, 17'000'000u, 50'000'000u, 100u, 49'000'000u})
    check(*file, begin, 70'000);
  check(*file, 20'000'000, 3'000'000);  // left behind: unpacked once more
  check(*file, content.size() - 1, 1);
  for (const unsigned threads : {1u, 2u, 7u}) {
    const auto again = open(stored);
    std::atomic<std::uint64_t> next{0};
    std::vector<std::jthread> all;
    for (unsigned t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        constexpr std::uint64_t kStep = 300'000;
        while (true) {
          const std::uint64_t begin = next.fetch_add(kStep);
          if (begin >= content.size()) return;
          check(*again, begin, std::min<std::uint64_t>(kStep, content.size() - begin));
        }
      });
    }
    all.clear();
    check(*again, 0, content.size());
  }
}

TEST(ZstdStream, MoreFilesThanMayStayOpen) {
  const Bytes content = content_of(40'000'000);
  const Bytes stored = frame_of(content);
  std::vector<std::shared_ptr<const File>> files;
  for (int i = 0; i < 6; ++i) files.push_back(open(stored));
  for (std::uint64_t begin = 0; begin < content.size(); begin += 10'000'000) {
    for (const auto& file : files) {
      ASSERT_TRUE(equal(read(*file, begin, 10'000'000), std::span(content).subspan(begin, 10'000'000))) << begin;
    }
  }
}

TEST(ZstdStream, ADamagedEndIsFoundByWhoeverReadsTheLastByte) {
  const Bytes content = content_of(40'000'000);
  for (const bool state_size : {true, false}) {
    Bytes stored = frame_of(content, 1, true, state_size);
    stored.back() ^= std::byte{1};
    if (!state_size) {
      expect_refused(stored, ErrorCode::kCorrupt, "checksum");
      continue;
    }
    const auto file = open(stored);
    EXPECT_TRUE(equal(read(*file, 30'000'000, 1000), std::span(content).subspan(30'000'000, 1000)));
    for (int i = 0; i < 2; ++i) EXPECT_THROW(read(*file, content.size() - 1, 1), Error) << "and again";
    EXPECT_THROW(read(*file, 0, 1), Error) << "nothing of it is good";
  }
}

TEST(ZstdStream, WhatTheDiskHasNoRoomForIsRefusedBeforeItIsUnpacked) {
  // A frame that states 1 PiB: blocks of 128 KiB of one byte, 64 MiB of them.
  Bytes stored;
  append_u32(stored, 0xFD2FB528);
  stored.push_back(std::byte{0xC0});  // eight bytes of size, a window
  stored.push_back(std::byte{0x50});  // 1 MiB
  for (int i = 0; i < 8; ++i) stored.push_back(std::byte{static_cast<unsigned char>(i == 6 ? 4 : 0)});
  for (int block = 0; block < 512; ++block) {
    const std::uint32_t header = 131072u << 3 | 1u << 1 | (block == 511 ? 1u : 0u);
    for (int i = 0; i < 3; ++i) stored.push_back(static_cast<std::byte>(header >> (8 * i)));
    stored.push_back(std::byte{7});
  }
  const auto file = open(stored);
  ASSERT_EQ(file->size(), std::uint64_t{1} << 50);
  EXPECT_EQ(read(*file, 50 << 20, 1), Bytes(1, std::byte{7})) << "without a temporary file";
  try {
    read(*file, 20 << 20, 1);  // goes back
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string_view(error.what()).find("TMPDIR names another folder"), std::string_view::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace wconv
