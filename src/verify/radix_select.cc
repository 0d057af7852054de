#include "verify/radix_select.h"

#include <algorithm>
#include <bit>

namespace wconv::verify_detail {
namespace {

constexpr unsigned kDigitBits = 16;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Negative numbers reversed, positive ones above them: unsigned order is numeric order.
template <typename Bits>
Bits ordered(Bits bits) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  return (bits & kSign) ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
}
template <typename Bits>
Bits unordered(Bits key) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  return (key & kSign) ? static_cast<Bits>(key & ~kSign) : static_cast<Bits>(~key);
}

}  // namespace

std::unique_ptr<RadixSelect::Counts> RadixSelect::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!pool_.empty()) {
      auto counts = std::move(pool_.back());
      pool_.pop_back();
      return counts;
    }
  }
  return std::make_unique<Counts>(prefixes_.size() * kDigits);
}

void RadixSelect::give(std::unique_ptr<Counts> counts) {
  const std::lock_guard lock(mutex_);
  pool_.push_back(std::move(counts));
}

std::uint64_t RadixSelect::key_of(double value) const {
  value += 0.0;  // -0 becomes 0
  if (width_ == 64) return ordered(std::bit_cast<std::uint64_t>(value));
  const std::uint32_t key = ordered(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  return width_ == 32 ? key : key >> 16;
}

// prefixes_.size() when nobody looks for a value with this prefix.
std::size_t RadixSelect::slot_of(std::uint64_t prefix) const {
  const auto found = std::lower_bound(prefixes_.begin(), prefixes_.end(), prefix);
  return found != prefixes_.end() && *found == prefix ? static_cast<std::size_t>(found - prefixes_.begin())
                                                      : prefixes_.size();
}

void RadixSelect::add(Counts& counts, std::span<const double> values) const {
  const unsigned shift = width_ - bits_done_ - kDigitBits;
  if (bits_done_ == 0) {
    for (const double value : values) ++counts[key_of(value) >> shift];
    return;
  }
  for (const double value : values) {
    const std::uint64_t key = key_of(value);
    const std::size_t slot = slot_of(key >> (shift + kDigitBits));
    if (slot < prefixes_.size()) ++counts[slot * kDigits + ((key >> shift) & (kDigits - 1))];
  }
}

void RadixSelect::end_pass(std::span<const std::uint64_t> ranks) {
  if (targets_.empty()) {
    for (const std::uint64_t rank : ranks) targets_.push_back({0, rank});
  }
  Counts total(prefixes_.size() * kDigits);
  for (const auto& counts : pool_) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += (*counts)[i];
  }
  pool_.clear();
  for (Target& target : targets_) {
    const std::uint64_t* row = total.data() + slot_of(target.prefix) * kDigits;
    std::size_t digit = 0;
    while (digit + 1 < kDigits && target.rank >= row[digit]) target.rank -= row[digit++];
    target.prefix = target.prefix << kDigitBits | digit;
  }
  bits_done_ += kDigitBits;
  prefixes_.clear();
  for (const Target& target : targets_) prefixes_.push_back(target.prefix);
  std::sort(prefixes_.begin(), prefixes_.end());
  prefixes_.erase(std::unique(prefixes_.begin(), prefixes_.end()), prefixes_.end());
}

double RadixSelect::value(std::size_t rank_index) const {
  const std::uint64_t key = targets_[rank_index].prefix;
  if (width_ == 64) return std::bit_cast<double>(unordered(key));
  // The lower half of a 16-bit key's value is zero, and so its complement where the value is negative.
  const std::uint64_t lower = (key & 0x8000) ? 0 : 0xffff;
  const auto key32 = static_cast<std::uint32_t>(width_ == 32 ? key : key << 16 | lower);
  return std::bit_cast<float>(unordered(key32));
}

}  // namespace wconv::verify_detail
