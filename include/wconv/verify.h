// Comparing two models value by value, across formats; checking that one model is whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wconv/manifest.h"
#include "wconv/model.h"

namespace wconv {

using ReadProgress = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

struct VerifyOptions {
  bool keys_only = false;  // names and shapes, no values
  unsigned threads = 0;
  // A tensor passes when each threshold that is given holds; when none is, its values must be equal.
  std::optional<double> max_rmse;  // absolute, in the unit of the values: the `rmse` of the report
  std::optional<double> min_cosine;
  ReadProgress progress;  // from one thread at a time; the total grows when differing tensors are read again
  const std::atomic<int>* interrupted = nullptr;
};

// Values are compared decoded, in binary64 (64-bit integers exactly); complex numbers part by part. NaN equals NaN, and
// -0 equals 0. A pair that is finite on one side only, or NaN against infinity, or two different infinities is a
// nonfinite mismatch, which no threshold allows; with one, max_abs and rmse are +inf, snr_db is -inf and cosine NaN.
// Other pairs that are not finite count for nothing in the metrics.
//
// status:
//   "equal"        same dtype, shape and values
//   "dtype"        another dtype, but the same shape and values
//   "within"       other values, within the thresholds
//   "different"    other values
//   "transposed"   the shape is reversed, and the values are equal once transposed
//   "shape"        another shape
//   "undecodable"  of two dtypes of which at least one has no decoder, or one is complex and the other is not
// The first three pass. With keys_only values are taken as equal.
struct TensorComparison {
  std::string name;            // in the reference
  std::string candidate_name;  // differs where a prefix was explained away
  std::string status;
  DType dtypes[2] = {DType::kF32, DType::kF32};
  std::vector<std::uint64_t> shape, candidate_shape;
  bool measured = false;  // values were compared, so that what follows holds; false for block types, which are
                          // compared byte by byte
  double max_abs = 0, rmse = 0, cosine = 1, snr_db = 0;  // of equal values: 0, 0, 1, +inf
  std::uint64_t values = 0, different_values = 0;
  std::uint64_t first_difference = 0;  // flat index; where different_values is not 0
  std::uint64_t nonfinite_mismatches = 0;
  std::uint64_t nans[2] = {0, 0};  // in the reference, in the candidate; where their bytes differ
  bool same_bits = true;           // false for equal values that differ in the sign of a zero or in a NaN's payload
  bool passes() const { return status == "equal" || status == "dtype" || status == "within"; }
};

struct VerifyReport {
  bool equal = false;                            // every tensor passes, and both models have the same names
  std::vector<TensorComparison> tensors;         // in the reference's order
  std::vector<std::string> missing, unexpected;  // names in the reference only; in the candidate only
  std::vector<std::string> explanations;         // "every name of the candidate has the prefix 'module.' …"
  std::string worst;                             // tensor with the lowest SNR; empty: no values differ
  std::uint64_t values = 0;                      // compared
};

// The same report for any thread count. Checks the CRC-32 of zip records, so that a damaged archive is refused and not
// reported as different. Throws as the readers do.
//
// Names that differ by a prefix are paired, and their values compared; the report says so and is not `equal`.
VerifyReport verify(const Model& reference, const Model& candidate, const VerifyOptions& options);

struct WholeOptions {
  unsigned threads = 0;
  bool require_manifest = false;  // Error(kMissing) without one
  ReadProgress progress;
  const std::atomic<int>* interrupted = nullptr;
};

struct WholeReport {
  std::vector<ManifestProblem> problems;  // empty: whole
  std::uint64_t bytes = 0;                // read
  std::size_t records = 0;                // CRC-32 values checked
  bool manifest = false;                  // there is one, and it was checked
};

// Reads all of a model that has been opened (which proved its headers): every byte, the CRC-32 of zip records, the
// index of shards, tied weights against config.json, and the manifest where one lies beside it. Throws Error(kCorrupt)
// for a damaged record, Error(kIo).
WholeReport check_whole(const Model& model, const WholeOptions& options);

}  // namespace wconv
