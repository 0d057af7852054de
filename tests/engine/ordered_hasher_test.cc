#include "engine/ordered_hasher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
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
    HashQueue queue;
    OrderedHasher hasher(queue, true, [&](std::uint64_t begin, std::span<std::byte>) { turns.push_back(begin); });
    parallel_for(order.size(), 4, [&](std::size_t i) {
      hasher.add(order[i] * 1000, std::span(bytes).subspan(order[i] * 1000, 1000), nullptr);
      queue.work(true);
    });
    EXPECT_EQ(hasher.hex(), expected);
    EXPECT_EQ(turns.size(), 100u);
    EXPECT_TRUE(std::is_sorted(turns.begin(), turns.end()));
  }
}

// Two streams that begin at other places of a block, so that pairs of them are cut unevenly.
TEST(HashQueue, GivesEachOfManyStreamsItsOwnDigest) {
  std::vector<std::byte> bytes(300'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 2);
  const auto sizes = std::to_array<std::size_t>({64, 1000, 4097, 100'000});
  HashQueue queue;
  std::vector<std::unique_ptr<OrderedHasher>> hashers;
  for (std::size_t i = 0; i < 16; ++i) hashers.push_back(std::make_unique<OrderedHasher>(queue, true));
  parallel_for(hashers.size(), 4, [&](std::size_t h) {
    std::span<std::byte> left = std::span(bytes).subspan(h);
    for (std::uint64_t at = 0; !left.empty();) {
      const std::size_t size = std::min(left.size(), sizes[(h + at) % sizes.size()]);
      hashers[h]->add(at, left.first(size), nullptr);
      at += size;
      left = left.subspan(size);
      if (at % 3 == 0) queue.work(at % 2 == 0);
    }
    queue.work(true);
  });
  queue.work(true);
  for (std::size_t h = 0; h < hashers.size(); ++h) {
    Sha256 expected;
    expected.update(std::span(bytes).subspan(h));
    EXPECT_EQ(hashers[h]->hex(), expected.hex()) << h;
  }
}

TEST(OrderedHasher, HashesWhatOnTurnWrote) {
  std::vector<std::byte> bytes(10), ones(10, std::byte{1});
  HashQueue queue;
  OrderedHasher hasher(
      queue, true, [](std::uint64_t, std::span<std::byte> turn) { std::fill(turn.begin(), turn.end(), std::byte{1}); });
  hasher.add(0, bytes, nullptr);
  queue.work(true);
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
