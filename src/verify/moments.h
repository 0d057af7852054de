// Count, mean and sum of squared deviations that can be merged (Chan, Golub, LeVeque 1979).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace wconv::verify_detail {

// Eight running sums, added up in one fixed order: as fast as vector code and the same bits everywhere.
template <typename Term>
double lane_sum(std::size_t count, const Term& term) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= count; i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < count; ++i) lanes[i % lanes.size()] += term(i);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

struct Moments {
  std::uint64_t zeros = 0, nans = 0, infinities = 0;
  std::uint64_t count = 0;  // finite values
  double mean = 0, squares = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();

  // Of finite values, which need not be counted otherwise.
  void add_finite(std::span<const double> values) {
    if (values.empty()) return;
    Moments part;
    part.count = values.size();
    const auto n = static_cast<double>(values.size());
    part.mean = lane_sum(values.size(), [&](std::size_t i) { return values[i]; }) / n;
    if (!std::isfinite(part.mean)) part.mean = lane_sum(values.size(), [&](std::size_t i) { return values[i] / n; });
    part.squares = lane_sum(values.size(), [&](std::size_t i) {
      const double deviation = values[i] - part.mean;
      return deviation * deviation;
    });
    for (const double value : values) {
      part.min = std::min(part.min, value);
      part.max = std::max(part.max, value);
      part.zeros += value == 0;
    }
    merge(part);
  }

  // `later`: of values that come after these.
  void merge(const Moments& later) {
    zeros += later.zeros;
    nans += later.nans;
    infinities += later.infinities;
    if (later.count == 0) return;
    min = std::min(min, later.min);
    max = std::max(max, later.max);
    const auto a = static_cast<double>(count), b = static_cast<double>(later.count), total = a + b;
    const double delta = later.mean - mean;
    mean = count == 0 ? later.mean : mean + delta * (b / total);
    squares += later.squares + (count == 0 ? 0.0 : delta * delta * (a * b / total));
    count += later.count;
  }
};

}  // namespace wconv::verify_detail
