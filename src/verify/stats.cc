#include "wconv/stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/threads.h"
#include "verify/moments.h"
#include "verify/radix_select.h"
#include "verify/values.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv {
namespace {

using namespace verify_detail;

// At most this many values are kept and sorted instead of counted.
constexpr std::uint64_t kSortValues = 64 * 1024;

KeyWidth key_width(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
    case DType::kI32:
    case DType::kU32:
      return KeyWidth::k64;
    case DType::kF32:
    case DType::kF16:
    case DType::kI16:
    case DType::kU16:
      return KeyWidth::k32;
    default:
      return KeyWidth::k16;  // at most 8 significant bits
  }
}

// The finite ones of `values`, moved to its front; the others are counted.
std::span<double> keep_finite(std::span<double> values, Moments& moments) {
  std::size_t kept = 0;
  for (const double value : values) {
    moments.nans += std::isnan(value);
    moments.infinities += std::isinf(value);
    values[kept] = value;
    kept += std::isfinite(value);
  }
  return values.first(kept);
}

// Calls use(finite values, moments) for each slice of a task's values.
template <typename Use>
void for_each_slice(const Tensor& tensor, std::uint64_t begin, std::uint64_t count, Moments& moments, const Use& use) {
  const DType dtype = value_type(tensor.info.dtype).dtype;
  std::vector<std::byte> bytes;
  read_values(tensor, begin, count, bytes);
  std::array<double, kSliceValues> buffer;
  for (std::uint64_t done = 0; done < count; done += kSliceValues) {
    const auto slice = std::span(buffer).first(std::min<std::uint64_t>(kSliceValues, count - done));
    decode_f64(dtype, bytes_from(dtype, bytes, done), slice);
    use(keep_finite(slice, moments));
  }
}

struct Rank {
  std::uint64_t low = 0, high = 0;
  double share = 0;  // of the way from low to high
};

std::array<Rank, kPercentiles.size()> percentile_ranks(std::uint64_t count) {
  std::array<Rank, kPercentiles.size()> ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const double position = static_cast<double>(count - 1) * (kPercentiles[i] / 100.0);
    const double low = std::floor(position);
    ranks[i].low = static_cast<std::uint64_t>(low);
    ranks[i].high = std::min(ranks[i].low + 1, count - 1);
    ranks[i].share = position - low;
  }
  return ranks;
}

double between(double low, double high, double share) {
  return share < 0.5 ? low + (high - low) * share : high - (high - low) * (1 - share);
}

TensorStats finish(const Moments& moments, std::uint64_t count) {
  TensorStats stats;
  stats.count = count;
  stats.zeros = moments.zeros;
  stats.nans = moments.nans;
  stats.infinities = moments.infinities;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const bool any = moments.count > 0;
  stats.min = any ? moments.min + 0.0 : kNone;
  stats.max = any ? moments.max + 0.0 : kNone;
  stats.mean = any ? moments.mean : kNone;
  stats.sd = any ? std::sqrt(moments.squares / static_cast<double>(moments.count)) : kNone;
  stats.percentiles.fill(kNone);
  return stats;
}

TensorStats sorted_stats(const Tensor& tensor, std::uint64_t count) {
  Moments moments;
  std::vector<double> finite;
  for_each_slice(tensor, 0, count, moments, [&](std::span<const double> values) {
    moments.add_finite(values);
    finite.insert(finite.end(), values.begin(), values.end());
  });
  TensorStats stats = finish(moments, count);
  if (finite.empty()) return stats;
  std::sort(finite.begin(), finite.end());
  const auto ranks = percentile_ranks(finite.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    stats.percentiles[i] = between(finite[ranks[i].low] + 0.0, finite[ranks[i].high] + 0.0, ranks[i].share);
  }
  return stats;
}

TensorStats counted_stats(const Tensor& tensor, std::uint64_t count, unsigned threads,
                          const std::atomic<int>* interrupted) {
  std::vector<Moments> parts((count + kTaskValues - 1) / kTaskValues);
  RadixSelect select(key_width(value_type(tensor.info.dtype).dtype));
  const auto pass = [&](bool first) {
    parallel_for(parts.size(), threads, [&](std::size_t task) {
      if (interrupted && interrupted->load()) fail(ErrorCode::kInterrupted, "interrupted");
      const std::uint64_t begin = task * kTaskValues;
      Moments ignored, &moments = first ? parts[task] : ignored;
      auto counts = select.take();
      for_each_slice(tensor, begin, std::min(kTaskValues, count - begin), moments, [&](std::span<const double> values) {
        if (first) moments.add_finite(values);
        select.add(*counts, values);
      });
      select.give(std::move(counts));
    });
  };
  pass(true);
  Moments moments;
  for (const Moments& part : parts) moments.merge(part);
  TensorStats stats = finish(moments, count);
  if (moments.count == 0) return stats;
  const auto ranks = percentile_ranks(moments.count);
  std::vector<std::uint64_t> wanted;
  for (const Rank& rank : ranks) wanted.insert(wanted.end(), {rank.low, rank.high});
  select.end_pass(wanted);
  while (!select.done()) {
    pass(false);
    select.end_pass(wanted);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    stats.percentiles[i] = between(select.value(2 * i), select.value(2 * i + 1), ranks[i].share);
  }
  return stats;
}

}  // namespace

bool has_stats(DType dtype) { return has_values(dtype); }

TensorStats tensor_stats(const Tensor& tensor, unsigned threads, const std::atomic<int>* interrupted) {
  if (!has_stats(tensor.info.dtype)) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{} has no decoder", name(tensor.info.dtype)))
        .in_tensor(tensor.info.name);
  }
  const std::uint64_t count = value_count(tensor.info);
  return count <= kSortValues ? sorted_stats(tensor, count) : counted_stats(tensor, count, threads, interrupted);
}

}  // namespace wconv
