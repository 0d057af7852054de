// The cache of unpacked frames: bounded, shared, and never the wrong bytes.
#include "core/frame_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace wconv {
namespace {

constexpr std::uint64_t kFrame = 1000;

// Frames filled with their number; counts what is unpacked.
struct Frames {
  std::atomic<int> unpacked{0};
  FrameCache::Source source;
  explicit Frames(std::uint64_t id, std::size_t count = 100) {
    source.id = id;
    source.frames = count;
    source.frame_bytes = [](std::size_t) { return kFrame; };
    source.unpack = [this](std::size_t frame, std::span<std::byte> out) {
      ++unpacked;
      std::fill(out.begin(), out.end(), static_cast<std::byte>(frame));
    };
  }
};

std::byte first_byte(FrameCache& cache, const Frames& frames, std::size_t frame) {
  std::byte byte{};
  cache.read(frames.source, frame, 5, {&byte, 1});
  return byte;
}

TEST(FrameCache, KeepsWhatWasUsedLast) {
  FrameCache cache(4 * kFrame);
  Frames frames(1);
  for (const std::size_t frame : {0u, 1u, 2u, 3u, 0u, 1u})
    EXPECT_EQ(first_byte(cache, frames, frame), std::byte(frame));
  EXPECT_EQ(frames.unpacked, 4);
  first_byte(cache, frames, 4);  // in the place of 2
  EXPECT_FALSE(cache.contains(frames.source, 2));
  for (const std::size_t frame : {0u, 1u, 3u, 4u}) EXPECT_TRUE(cache.contains(frames.source, frame)) << frame;
}

TEST(FrameCache, FilesDoNotSeeEachOther) {
  FrameCache cache(10 * kFrame);
  Frames a(1), b(2);
  b.source.unpack = [](std::size_t, std::span<std::byte> out) { std::fill(out.begin(), out.end(), std::byte{77}); };
  EXPECT_EQ(first_byte(cache, a, 3), std::byte{3});
  EXPECT_EQ(first_byte(cache, b, 3), std::byte{77});
  cache.drop(1);
  EXPECT_FALSE(cache.contains(a.source, 3));
  EXPECT_TRUE(cache.contains(b.source, 3));
}

TEST(FrameCache, AnErrorReachesTheReaderAndIsNotKept) {
  FrameCache cache(4 * kFrame);
  Frames frames(1);
  bool fails = true;
  frames.source.unpack = [&](std::size_t, std::span<std::byte> out) {
    if (fails) throw std::runtime_error("damaged");
    std::fill(out.begin(), out.end(), std::byte{9});
  };
  EXPECT_THROW(first_byte(cache, frames, 0), std::runtime_error);
  EXPECT_FALSE(cache.contains(frames.source, 0));
  fails = false;
  EXPECT_EQ(first_byte(cache, frames, 0), std::byte{9});
}

TEST(FrameCache, AThreadThatWaitsUnpacksTheNextFrame) {
  FrameCache cache(8 * kFrame);
  Frames frames(1);
  std::atomic<bool> next_begun{false};
  const auto plain = frames.source.unpack;
  frames.source.unpack = [&](std::size_t frame, std::span<std::byte> out) {
    if (frame == 1) next_begun = true;
    // Frame 0 is done only when somebody has begun frame 1: two threads that want frame 0 would wait for ever.
    while (frame == 0 && !next_begun) std::this_thread::yield();
    plain(frame, out);
  };
  std::jthread other([&] { EXPECT_EQ(first_byte(cache, frames, 0), std::byte{0}); });
  EXPECT_EQ(first_byte(cache, frames, 0), std::byte{0});
  other.join();
  EXPECT_TRUE(cache.contains(frames.source, 1));
}

TEST(FrameCache, ManyThreadsInLittleRoom) {
  FrameCache cache(4 * kFrame);
  Frames a(1), b(2);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 7; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 3000; ++i) {
        const std::size_t frame = random() % 100;
        ASSERT_EQ(first_byte(cache, t % 2 ? a : b, frame), static_cast<std::byte>(frame));
      }
    });
  }
}

}  // namespace
}  // namespace wconv
