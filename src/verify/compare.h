// Comparing the values of pairs of tensors, in parallel and with sums that do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "wconv/tensor.h"
#include "wconv/verify.h"

namespace wconv::verify_detail {

// Two tensors whose values correspond one to one: the same value_count, in the same order.
struct Pair {
  const Tensor* reference = nullptr;
  const Tensor* candidate = nullptr;
};

// Sums over a run of pairs of values; see TensorComparison for what each means.
struct Sums {
  std::uint64_t values = 0, different = 0, first_difference = 0;
  std::uint64_t set_aside = 0, nonfinite = 0;  // pairs that are not finite on both sides; those of them that differ
  std::uint64_t nans[2] = {0, 0};              // in the reference, in the candidate
  double max_abs = 0, noise = 0, product = 0, reference = 0, candidate = 0;  // Σ(a-b)², Σab, Σa², Σb²
  void merge(const Sums& later);
};

// Reading on all threads, with progress and interruption.
class Reading {
 public:
  Reading(unsigned threads, ReadProgress progress, const std::atomic<int>* interrupted)
      : threads_(threads), progress_(std::move(progress)), interrupted_(interrupted) {}
  unsigned threads() const { return threads_; }
  void plan(std::uint64_t bytes) { total_ += bytes; }  // before the work that advances
  void advance(std::uint64_t bytes);                   // thread-safe; throws Error(kInterrupted)

 private:
  unsigned threads_;
  ReadProgress progress_;
  const std::atomic<int>* interrupted_;
  std::mutex mutex_;
  std::uint64_t done_ = 0, total_ = 0;
};

// For each pair: whether the stored bytes are the same. Pairs of different dtypes or sizes are not read. Reading a pair
// ends soon after its first difference.
std::vector<bool> same_bytes(std::span<const Pair> pairs, Reading& reading);

// True when decode_f64 serves both, and their values correspond.
bool comparable(DType reference, DType candidate);
// For each pair (of comparable dtypes): the sums over all values.
std::vector<Sums> compare_values(std::span<const Pair> pairs, Reading& reading);

// A quick look at up to 64 values spread over the pair: false when one differs.
bool sample_equal(const Pair& pair);

}  // namespace wconv::verify_detail
