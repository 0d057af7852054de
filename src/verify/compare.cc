#include "verify/compare.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/threads.h"
#include "verify/moments.h"
#include "verify/values.h"
#include "wconv/error.h"
#include "wconv/numeric.h"

namespace wconv::verify_detail {
namespace {

constexpr std::uint64_t kByteTask = 512 * 1024;

struct Task {
  std::size_t pair = 0;
  std::uint64_t begin = 0, size = 0;  // bytes or values
};

std::vector<Task> cut(std::size_t pair, std::uint64_t total, std::uint64_t step, std::vector<Task> tasks) {
  for (std::uint64_t begin = 0; begin < total; begin += step)
    tasks.push_back({pair, begin, std::min(step, total - begin)});
  return tasks;
}

void read_bytes(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> out) {
  try {
    tensor.data->read(offset, out);
  } catch (Error& error) {
    throw error.in_tensor(tensor.info.name);
  }
}

bool is_wide_integer(DType dtype) { return dtype == DType::kI64 || dtype == DType::kU64; }

// One value that binary64 may have to round: exact in long double, whose significand has at least 64 bits. A value that
// was set aside stays 0; no other integer rounds to 0.
long double exact_value(DType dtype, std::span<const std::byte> bytes, std::size_t index, double rounded) {
  if (rounded == 0) return 0;
  if (dtype == DType::kI64) {
    std::int64_t number;
    std::memcpy(&number, bytes.data() + 8 * index, 8);
    return static_cast<long double>(number);
  }
  if (dtype == DType::kU64) {
    std::uint64_t number;
    std::memcpy(&number, bytes.data() + 8 * index, 8);
    return static_cast<long double>(number);
  }
  return rounded;
}

// Compares the values of one slice after another; the buffers are for one slice.
class SliceComparer {
 public:
  SliceComparer(DType reference, DType candidate)
      : a_type_(value_type(reference).dtype),
        b_type_(value_type(candidate).dtype),
        wide_(is_wide_integer(a_type_) || is_wide_integer(b_type_)) {}

  // `index`: flat index of the first value.
  void compare(std::span<const std::byte> a_bytes, std::span<const std::byte> b_bytes, std::size_t count,
               std::uint64_t index, Sums& sums) {
    const auto a = std::span(a_).first(count), b = std::span(b_).first(count), diff = std::span(diff_).first(count);
    decode_f64(a_type_, a_bytes, a);
    decode_f64(b_type_, b_bytes, b);
    Sums part;
    part.values = count;
    std::size_t first = count;
    if (lane_sum(count, [&](std::size_t i) { return a[i] * 0 + b[i] * 0; }) != 0)
      first = set_aside_nonfinite(a, b, part);
    if (wide_) {
      for (std::size_t i = 0; i < count; ++i) {
        diff[i] = static_cast<double>(exact_value(a_type_, a_bytes, i, a[i]) - exact_value(b_type_, b_bytes, i, b[i]));
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) diff[i] = a[i] - b[i];
    }
    std::uint64_t different = 0;
    for (const double d : diff) different += d != 0;
    if (different > 0) {
      for (const double d : diff) part.max_abs = std::max(part.max_abs, std::abs(d));
      part.noise = lane_sum(count, [&](std::size_t i) { return diff[i] * diff[i]; });
      const auto differs = std::find_if(diff.begin(), diff.end(), [](double d) { return d != 0; });
      first = std::min(first, static_cast<std::size_t>(differs - diff.begin()));
    }
    part.product = lane_sum(count, [&](std::size_t i) { return a[i] * b[i]; });
    part.reference = lane_sum(count, [&](std::size_t i) { return a[i] * a[i]; });
    part.candidate = lane_sum(count, [&](std::size_t i) { return b[i] * b[i]; });
    part.different = different + part.nonfinite;
    part.first_difference = index + first;
    sums.merge(part);
  }

 private:
  // Counts the mismatches among pairs that are not both finite and makes all of those 0; returns the first mismatch.
  static std::size_t set_aside_nonfinite(std::span<double> a, std::span<double> b, Sums& part) {
    std::size_t first = a.size();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a[i]) && std::isfinite(b[i])) continue;
      ++part.set_aside;
      part.nans[0] += std::isnan(a[i]);
      part.nans[1] += std::isnan(b[i]);
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      if (!same) first = std::min(first, i);
      part.nonfinite += !same;
      a[i] = b[i] = 0;
    }
    return first;
  }

  DType a_type_, b_type_;
  bool wide_;
  std::array<double, kSliceValues> a_, b_, diff_;
};

Sums compare_task(const Pair& pair, std::uint64_t begin, std::uint64_t count) {
  const DType a_type = value_type(pair.reference->info.dtype).dtype,
              b_type = value_type(pair.candidate->info.dtype).dtype;
  thread_local std::vector<std::byte> a_bytes, b_bytes;
  read_values(*pair.reference, begin, count, a_bytes);
  read_values(*pair.candidate, begin, count, b_bytes);
  SliceComparer comparer(pair.reference->info.dtype, pair.candidate->info.dtype);
  Sums sums;
  for (std::uint64_t done = 0; done < count; done += kSliceValues) {
    comparer.compare(bytes_from(a_type, a_bytes, done), bytes_from(b_type, b_bytes, done),
                     std::min<std::uint64_t>(kSliceValues, count - done), begin + done, sums);
  }
  return sums;
}

}  // namespace

void Sums::merge(const Sums& later) {
  if (different == 0) first_difference = later.first_difference;
  values += later.values;
  different += later.different;
  set_aside += later.set_aside;
  nonfinite += later.nonfinite;
  for (int side = 0; side < 2; ++side) nans[side] += later.nans[side];
  max_abs = std::max(max_abs, later.max_abs);
  noise += later.noise;
  product += later.product;
  reference += later.reference;
  candidate += later.candidate;
}

void Reading::advance(std::uint64_t bytes) {
  if (interrupted_ && interrupted_->load()) fail(ErrorCode::kInterrupted, "interrupted");
  if (!progress_) return;
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  progress_(done_, total_);
}

std::vector<bool> same_bytes(std::span<const Pair> pairs, Reading& reading) {
  std::vector<Task> tasks;
  std::vector<std::atomic<bool>> differs(pairs.size());
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const DType dtype = pairs[p].reference->info.dtype;
    const std::uint64_t size = pairs[p].reference->data->size_bytes(), block = info(dtype).block_bytes;
    if (dtype != pairs[p].candidate->info.dtype || size != pairs[p].candidate->data->size_bytes()) {
      differs[p] = true;
      continue;
    }
    tasks = cut(p, size, kByteTask / block * block, std::move(tasks));
    reading.plan(2 * size);
  }
  parallel_for(tasks.size(), reading.threads(), [&](std::size_t i) {
    const Task& task = tasks[i];
    if (!differs[task.pair].load(std::memory_order_relaxed)) {
      thread_local std::vector<std::byte> a, b;
      a.resize(task.size);
      b.resize(task.size);
      read_bytes(*pairs[task.pair].reference, task.begin, a);
      read_bytes(*pairs[task.pair].candidate, task.begin, b);
      if (std::memcmp(a.data(), b.data(), task.size) != 0) differs[task.pair] = true;
    }
    reading.advance(2 * task.size);
  });
  std::vector<bool> same(pairs.size());
  for (std::size_t p = 0; p < pairs.size(); ++p) same[p] = !differs[p];
  return same;
}

bool comparable(DType reference, DType candidate) {
  return has_values(reference) && has_values(candidate) &&
         value_type(reference).per_element == value_type(candidate).per_element;
}

std::vector<Sums> compare_values(std::span<const Pair> pairs, Reading& reading) {
  std::vector<Task> tasks;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    tasks = cut(p, value_count(pairs[p].reference->info), kTaskValues, std::move(tasks));
    reading.plan(pairs[p].reference->data->size_bytes() + pairs[p].candidate->data->size_bytes());
  }
  std::vector<Sums> parts(tasks.size());
  parallel_for(tasks.size(), reading.threads(), [&](std::size_t i) {
    const Task& task = tasks[i];
    const Pair& pair = pairs[task.pair];
    parts[i] = compare_task(pair, task.begin, task.size);
    const double share = static_cast<double>(task.size) / static_cast<double>(value_count(pair.reference->info));
    const std::uint64_t bytes = pair.reference->data->size_bytes() + pair.candidate->data->size_bytes();
    reading.advance(static_cast<std::uint64_t>(share * static_cast<double>(bytes)));
  });
  std::vector<Sums> sums(pairs.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) sums[tasks[i].pair].merge(parts[i]);
  return sums;
}

bool sample_equal(const Pair& pair) {
  const std::uint64_t count = element_count(pair.reference->info.shape);
  const std::uint64_t a_size = info(pair.reference->info.dtype).block_bytes,
                      b_size = info(pair.candidate->info.dtype).block_bytes;
  const std::uint64_t per_element = value_type(pair.reference->info.dtype).per_element;
  std::array<std::byte, 16> a_bytes, b_bytes;
  SliceComparer comparer(pair.reference->info.dtype, pair.candidate->info.dtype);
  constexpr std::uint64_t kSamples = 64;
  for (std::uint64_t s = 0; s < std::min(count, kSamples); ++s) {
    // Evenly spread, but for a shift that keeps clear of one column of a matrix.
    const std::uint64_t element =
        count <= kSamples ? s : std::min(count / kSamples * s + s * s % (count / kSamples), count - 1);
    read_bytes(*pair.reference, element * a_size, std::span(a_bytes).first(a_size));
    read_bytes(*pair.candidate, element * b_size, std::span(b_bytes).first(b_size));
    Sums sums;
    comparer.compare(a_bytes, b_bytes, per_element, element, sums);
    if (sums.different > 0) return false;
  }
  return true;
}

}  // namespace wconv::verify_detail
