#include "wconv/tensor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv {
namespace {

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 + i / 256 * 7);
  return bytes;
}

std::vector<std::byte> read_all(const TensorData& data) {
  std::vector<std::byte> out(data.size_bytes());
  data.read(0, out);
  return out;
}

// The definition, one element at a time.
std::vector<std::byte> expected_view(const std::vector<std::byte>& storage, std::size_t element, std::uint64_t offset,
                                     const std::vector<std::uint64_t>& shape,
                                     const std::vector<std::int64_t>& strides) {
  std::vector<std::byte> out;
  std::vector<std::uint64_t> index(shape.size());
  for (std::uint64_t n = element_count(shape); n > 0; --n) {
    std::uint64_t at = offset;
    for (std::size_t d = 0; d < shape.size(); ++d) at += index[d] * static_cast<std::uint64_t>(strides[d]);
    for (std::size_t b = 0; b < element; ++b) out.push_back(storage[at * element + b]);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

TEST(StridedTensor, RandomViewsEqualTheDefinition) {
  std::mt19937 random(7);
  const auto storage_bytes = numbered(4096);
  const auto storage = file_tensor(File::from_bytes("storage", storage_bytes), 0, storage_bytes.size());
  int read = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const std::uint32_t element = 1u << random() % 4;
    std::vector<std::uint64_t> shape(random() % 5);
    std::vector<std::int64_t> strides(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      shape[d] = 1 + random() % 6;
      strides[d] = static_cast<std::int64_t>(random() % 30);
    }
    const std::uint64_t offset = random() % 20;
    std::shared_ptr<const TensorData> view;
    try {
      view = strided_tensor(storage, element, offset, shape, strides);
    } catch (const Error&) {
      std::uint64_t last = offset;
      for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * static_cast<std::uint64_t>(strides[d]);
      EXPECT_GE(last, storage_bytes.size() / element);
      continue;
    }
    const auto expected = expected_view(storage_bytes, element, offset, shape, strides);
    ASSERT_EQ(read_all(*view), expected);
    const std::uint64_t count = expected.size() / element, begin = random() % count, n = 1 + random() % (count - begin);
    std::vector<std::byte> part(n * element);
    view->read(begin * element, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin * element)));
    ++read;
  }
  EXPECT_GT(read, 1000);
}

TEST(StridedTensor, ContiguousViewOfAFileIsAFileRange) {
  const auto storage = file_tensor(File::from_bytes("storage", numbered(64)), 16, 48);
  const auto view =
      strided_tensor(storage, 4, 2, std::vector<std::uint64_t>{2, 1, 3}, std::vector<std::int64_t>{3, 99, 1});
  ASSERT_TRUE(view->file_range());
  EXPECT_EQ(view->file_range()->offset, 24u);
  EXPECT_EQ(view->file_range()->size, 24u);
}

TEST(StridedTensor, RefusesWhatLeavesTheStorage) {
  const auto storage = memory_tensor(numbered(40));
  const auto make = [&](std::uint64_t offset, std::vector<std::uint64_t> shape, std::vector<std::int64_t> strides) {
    return strided_tensor(storage, 4, offset, shape, strides);
  };
  EXPECT_NO_THROW(make(1, {3, 3}, {3, 1}));
  EXPECT_THROW(make(2, {3, 3}, {3, 1}), Error);
  EXPECT_THROW(make(0, {2}, {-1}), Error);
  EXPECT_THROW(make(~std::uint64_t{0}, {1}, {1}), Error);
  EXPECT_THROW(make(0, {std::uint64_t{1} << 62}, {1}), Error);
  EXPECT_THROW(make(0, {3}, {std::int64_t{1} << 62}), Error);
  EXPECT_THROW(make(0, {3}, {1, 1}), Error);
  EXPECT_EQ(make(1000, {0, 3}, {3, 1})->size_bytes(), 0u);  // an empty view touches nothing
  EXPECT_EQ(make(0, {1000}, {0})->size_bytes(), 4000u);     // an expanded one is whole
}

TEST(SwappedTensor, ReversesEachElement) {
  const auto swapped = swapped_tensor(memory_tensor(numbered(8)), 4);
  const auto plain = numbered(8), got = read_all(*swapped);
  EXPECT_EQ(got[0], plain[3]);
  EXPECT_EQ(got[7], plain[4]);
}

TEST(NegatedTensor, TurnsSignsWhereverAReadBegins) {
  const auto plain = numbered(32);
  for (const auto& [which, step] : {std::pair{Negated::kAll, 4u}, {Negated::kImaginary, 8u}}) {
    const auto negated = negated_tensor(memory_tensor(plain), 4, which);
    for (std::size_t begin = 0; begin < 32; ++begin) {
      std::vector<std::byte> part(32 - begin);
      negated->read(begin, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const bool sign = (begin + i) % step == step - 1;
        EXPECT_EQ(part[i], plain[begin + i] ^ (sign ? std::byte{0x80} : std::byte{0})) << begin << ' ' << i;
      }
    }
  }
}

TEST(FileTensor, RefusesARangePastTheEnd) {
  const auto file = File::from_bytes("f", numbered(10));
  EXPECT_NO_THROW(file_tensor(file, 10, 0));
  EXPECT_THROW(file_tensor(file, 8, 3), Error);
  EXPECT_THROW(file_tensor(file, ~std::uint64_t{0}, 2), Error);
}

class CountingData : public TensorData {
 public:
  explicit CountingData(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    read_ += out.size();
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  mutable std::atomic<std::uint64_t> read_{0};

 private:
  std::vector<std::byte> bytes_;
};

// Slices shorter than a row, from several threads: each row lies all over the storage, which is not read for each.
TEST(StridedTensor, ATransposedViewReadsItsStorageAFewTimesOnly) {
  constexpr std::uint64_t kRows = 500, kColumns = 20'000;  // of the view; 40 MB
  std::vector<std::byte> bytes(kRows * kColumns * 4);
  auto* numbers = reinterpret_cast<std::uint32_t*>(bytes.data());
  for (std::uint32_t i = 0; i < kRows * kColumns; ++i) numbers[i] = i;
  const auto storage = std::make_shared<CountingData>(std::move(bytes));
  const auto view =
      strided_tensor(storage, 4, 0, std::vector<std::uint64_t>{kRows, kColumns}, std::vector<std::int64_t>{1, kRows});
  constexpr std::uint64_t kSlice = 65'536;
  std::atomic<std::uint64_t> next{0}, wrong{0};
  const auto work = [&] {
    std::vector<std::uint32_t> slice(kSlice / 4);
    for (std::uint64_t at = next++ * kSlice; at < view->size_bytes(); at = next++ * kSlice) {
      const std::uint64_t size = std::min(kSlice, view->size_bytes() - at);
      view->read(at, std::as_writable_bytes(std::span(slice)).first(size));
      for (std::uint64_t i = 0; i < size / 4; ++i) {
        const std::uint64_t flat = at / 4 + i;
        wrong += slice[i] != flat % kColumns * kRows + flat / kColumns;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LT(storage->read_, 8 * storage->size_bytes());
}

}  // namespace
}  // namespace wconv
