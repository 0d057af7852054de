#include "engine/ordered_hasher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/threads.h"

namespace wconv::engine {
namespace {

TEST(OrderedHasher, GivesTheSameDigestForAnyOrderOfArrival) {
  std::vector<std::byte> bytes(100'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  Sha256 whole;
  whole.update(bytes);
  const std::string expected = whole.hex();
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> order(100);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::uint64_t> turns;
    OrderedHasher hasher(true, [&](std::uint64_t begin, std::span<std::byte>) { turns.push_back(begin); });
    parallel_for(order.size(), 4, [&](std::size_t i) {
      hasher.feed(order[i] * 1000, std::span(bytes).subspan(order[i] * 1000, 1000), nullptr);
    });
    EXPECT_EQ(hasher.hex(), expected);
    EXPECT_EQ(turns.size(), 100u);
    EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
  }
}

TEST(OrderedHasher, HashesWhatOnTurnWrote) {
  std::vector<std::byte> bytes(10), ones(10, std::byte{1});
  OrderedHasher hasher(
      true, [](std::uint64_t, std::span<std::byte> turn) { std::fill(turn.begin(), turn.end(), std::byte{1}); });
  hasher.feed(0, bytes, nullptr);
  Sha256 expected;
  expected.update(ones);
  EXPECT_EQ(hasher.hex(), expected.hex());
}

TEST(BufferPool, LendsWhatItHasAndEndsWhenStopped) {
  BufferPool pool(2, 16);
  Buffer a = pool.take(), b = pool.take();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a.get(), b.get());
  const auto* returned = a.get();
  a.reset();
  a = pool.take();
  EXPECT_EQ(a.get(), returned);
  pool.stop();
  b.reset();
  EXPECT_EQ(pool.take(), nullptr);
}

}  // namespace
}  // namespace wconv::engine
