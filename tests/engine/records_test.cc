// The CRC-32 of a record from parts that come in any order.
#include "engine/records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/hash.h"
#include "wconv/engine.h"

namespace wconv {
namespace {

TEST(PartialCrc, IsTheSameForAnyOrderOfItsParts) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(1000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < bytes.size(); at += 1 + at % 37) begins.push_back(at);
  std::vector<std::size_t> ends(begins.begin() + 1, begins.end());
  ends.push_back(bytes.size());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::size_t> order(begins.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    engine::PartialCrc partial;
    for (const std::size_t i : order) {
      const auto part = std::span(bytes).subspan(begins[i], ends[i] - begins[i]);
      partial.add(begins[i], crc32(0, part), part.size());
    }
    EXPECT_EQ(partial.value(), crc32(0, bytes));
  }
}

TEST(FileRecords, AreSortedByPath) {
  std::vector<FileRecord> files = {{"m-00002-of-00002.gguf", 1, ""}, {"m-00001-of-00002.gguf", 2, ""}};
  sort_by_path(files);
  EXPECT_EQ(files[0].path, "m-00001-of-00002.gguf");
  EXPECT_EQ(files[1].bytes, 1u);
}

}  // namespace
}  // namespace wconv
