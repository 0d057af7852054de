// What the values of tensors look like, and the digests that identify their bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wconv/model.h"

namespace wconv {

inline constexpr std::array<int, 7> kPercentiles = {1, 5, 25, 50, 75, 95, 99};

// Over decoded values in binary64; a complex element counts as two values. min to percentiles are over the finite
// values only, and NaN when there are none. sd is that of the whole population (numpy.std); percentiles are exact
// order statistics with linear interpolation between neighbours (numpy.percentile). -0 and 0 are the same value.
struct TensorStats {
  std::uint64_t count = 0;  // all values
  std::uint64_t zeros = 0, nans = 0, infinities = 0;
  double min = 0, max = 0, mean = 0, sd = 0;
  std::array<double, kPercentiles.size()> percentiles{};
};

// False for ggml's block types, which have no decoder yet.
bool has_stats(DType dtype);

// Reads the tensor 1, 2 or 4 times (8-bit and BF16, 16- and 32-bit, 64-bit types) in slices; never holds it whole. The
// same bits for any thread count. Throws Error(kIo | kCorrupt | kInterrupted), Error(kUnsupported) without has_stats.
TensorStats tensor_stats(const Tensor& tensor, unsigned threads = 0, const std::atomic<int>* interrupted = nullptr);

// SHA-256 (hex) of the stored little-endian, row-major bytes, as in the manifest.
std::string tensor_digest(const Tensor& tensor);

struct MeasureOptions {
  bool stats = false;
  bool digests = false;  // of tensors and of the model's files
  unsigned threads = 0;
  std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;  // from one thread at a time
  const std::atomic<int>* interrupted = nullptr;
};

struct TensorMeasures {
  std::optional<TensorStats> stats;  // where asked for and has_stats
  std::string sha256;                // where asked for
};

struct ModelMeasures {
  std::vector<TensorMeasures> tensors;   // one for each of `tensors`, in its order
  std::vector<std::string> file_sha256;  // one for each of model.files; empty without digests
};

// Measures the tensors with these indexes, tied ones once. Throws as tensor_stats does, naming the tensor.
ModelMeasures measure(const Model& model, std::span<const std::size_t> tensors, const MeasureOptions& options);

}  // namespace wconv
