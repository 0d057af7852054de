#include "core/hash.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "core/threads.h"
#include "wconv/error.h"

namespace wconv {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(Sha256, KnownAnswers) {  // FIPS 180-4 examples
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 sha;
  sha.update(bytes_of("a"));
  sha.update(bytes_of("bc"));
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Crc32, KnownAnswerAndJoin) {
  EXPECT_EQ(crc32(0, bytes_of("123456789")), 0xcbf43926u);
  const std::uint32_t a = crc32(0, bytes_of("1234")), b = crc32(0, bytes_of("56789"));
  EXPECT_EQ(crc32_join(a, b, 5), 0xcbf43926u);
  EXPECT_EQ(crc32(a, bytes_of("56789")), 0xcbf43926u);
  EXPECT_EQ(crc32_join(0, b, 5), b);
}

TEST(ParallelFor, VisitsEachIndexOnce) {
  for (const unsigned threads : {1u, 2u, 7u, 64u}) {
    std::vector<std::atomic<int>> seen(1000);
    parallel_for(seen.size(), threads, [&](std::size_t i) { ++seen[i]; });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

TEST(ParallelFor, RethrowsTheLowestFailure) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    try {
      parallel_for(100, 8, [](std::size_t i) {
        if (i >= 3) fail(ErrorCode::kCorrupt, "{}", i);
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_LE(std::stoul(error.what()), 10u);  // an earlier one always runs: indexes start in order
    }
  }
}

}  // namespace
}  // namespace wconv
