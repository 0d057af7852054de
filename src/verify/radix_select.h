// Exact order statistics of more values than fit in memory: one digit of an order-preserving key at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace wconv::verify_detail {

// How many of a key's 64 bits can differ: the key of a value that fits binary32 has 32, and 16 where that value has
// at most 8 significant bits.
enum class KeyWidth : unsigned { k16 = 16, k32 = 32, k64 = 64 };

// Finds the values at given ranks. Each pass over the values narrows every rank by 16 bits:
//
//   RadixSelect select(width);
//   do {
//     on any thread: auto counts = select.take(); select.add(*counts, values); select.give(std::move(counts));
//     select.end_pass(ranks);
//   } while (!select.done());
//   select.value(i)
//
// Values are finite; -0 counts as 0. Memory: 512 KiB per thread in the first pass, then at most that for each rank.
class RadixSelect {
 public:
  using Counts = std::vector<std::uint64_t>;

  explicit RadixSelect(KeyWidth width) : width_(static_cast<unsigned>(width)) {}

  // take and give may be called from any thread; add too, with different counts.
  std::unique_ptr<Counts> take();
  void add(Counts& counts, std::span<const double> values) const;
  void give(std::unique_ptr<Counts> counts);

  // `ranks`: zero-based, each below the number of values, the same in every pass.
  void end_pass(std::span<const std::uint64_t> ranks);
  bool done() const { return bits_done_ == width_; }
  double value(std::size_t rank_index) const;

 private:
  // A rank's key so far: its upper bits_done_ bits, and the rank among the values that share them.
  struct Target {
    std::uint64_t prefix = 0, rank = 0;
  };
  std::uint64_t key_of(double value) const;
  std::size_t slot_of(std::uint64_t prefix) const;

  unsigned width_, bits_done_ = 0;
  std::vector<std::uint64_t> prefixes_ = {0};  // distinct, ascending
  std::vector<Target> targets_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Counts>> pool_;
};

}  // namespace wconv::verify_detail
