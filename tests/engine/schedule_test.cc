#include "engine/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "support/support.h"
#include "wconv/file.h"

namespace wconv::engine {
namespace {

constexpr std::uint64_t kTile = 64 * 1024;

// Tensors that lie one after another in one file, with gaps between them.
Model model_of(const std::vector<std::uint64_t>& sizes, std::uint64_t gap) {
  std::uint64_t end = gap;
  for (const std::uint64_t size : sizes) end += size + gap;
  const auto file = File::from_bytes("in", std::vector<std::byte>(end));
  Model model;
  model.files.push_back({"in", end, file});
  std::uint64_t offset = gap;
  for (const std::uint64_t size : sizes) {
    Tensor tensor;
    tensor.info = {"t" + std::to_string(model.tensors.size()), DType::kU8, {size}};
    tensor.data = file_tensor(file, offset, size);
    model.tensors.push_back(std::move(tensor));
    offset += size + gap;
  }
  return model;
}

// The tensors in `order`, spread over `files` outputs.
Layout layout_of(const Model& model, const std::vector<std::size_t>& order, std::size_t files) {
  Layout layout;
  layout.files.resize(files);
  for (std::size_t i = 0; i < order.size(); ++i) {
    OutputFile& file = layout.files[i * files / order.size()];
    const std::uint64_t size = model.tensors[order[i]].data->size_bytes();
    Piece piece;
    piece.offset = file.size + 8;
    piece.content = TensorPiece{order[i], size};
    file.pieces.push_back(piece);
    file.size += 8 + size;
  }
  return layout;
}

// Input bytes in the order in which the run feeds them: from scans, and from tiles that a feeding piece meets.
std::vector<std::pair<std::uint64_t, std::uint64_t>> fed(const Model& model, const Layout& layout,
                                                         const Schedule& schedule) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Task& task : schedule.tasks) {
    if (task.kind == TaskKind::kScan) {
      ranges.emplace_back(task.begin, task.end);
      continue;
    }
    const auto& pieces = layout.files[task.file].pieces;
    for (std::size_t p = task.piece; p < pieces.size() && pieces[p].offset < task.end; ++p) {
      if (schedule.feeds[task.file][p] == kNoInput) continue;
      const std::uint64_t from = input_range(model, pieces[p])->offset;
      const std::uint64_t begin = std::max(task.begin, pieces[p].offset);
      const std::uint64_t end = std::min(task.end, pieces[p].offset + piece_size(pieces[p]));
      if (begin < end) ranges.emplace_back(from + begin - pieces[p].offset, from + end - pieces[p].offset);
    }
  }
  return ranges;
}

std::uint64_t scanned(const Schedule& schedule) {
  std::uint64_t bytes = 0;
  for (const Task& task : schedule.tasks) bytes += task.kind == TaskKind::kScan ? task.end - task.begin : 0;
  return bytes;
}

TEST(Schedule, FeedsEveryByteOfAnInputOnceAndInOrder) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 12);
    for (auto& size : sizes) size = 1 + random() % (random() % 2 ? 300'000 : 70'000);
    const Model model = model_of(sizes, random() % 3 * 100'000);
    std::vector<std::size_t> order(sizes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t swaps = random() % 4; swaps > 0; --swaps) {
      std::swap(order[random() % order.size()], order[random() % order.size()]);
    }
    if (random() % 2) order.push_back(order[random() % order.size()]);  // written twice
    const Layout layout = layout_of(model, order, 1 + random() % std::min<std::size_t>(3, order.size()));
    const Schedule schedule = plan_schedule(model, layout, true, kTile);
    std::uint64_t next = 0;
    for (const auto& [begin, end] : fed(model, layout, schedule)) {
      ASSERT_EQ(begin, next) << "round " << round;
      next = end;
    }
    ASSERT_EQ(next, model.files[0].file->size()) << "round " << round;
    std::map<std::size_t, std::uint64_t> written;
    for (const Task& task : schedule.tasks) {
      if (task.kind == TaskKind::kScan) continue;
      ASSERT_EQ(task.begin, written[task.file]) << "round " << round;
      written[task.file] = task.end;
    }
    for (std::size_t f = 0; f < layout.files.size(); ++f) ASSERT_EQ(written[f], layout.files[f].size);
  }
}

TEST(Schedule, ReadsAgainOnlyWhatIsCopiedOutOfOrder) {
  const Model model = model_of({200'000, 200'000, 200'000, 200'000}, 0);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {0, 1, 2, 3}, 1), true, kTile)), 0u);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {3, 0, 1, 2}, 1), true, kTile)), 200'000u);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {0, 1, 1, 3}, 2), true, kTile)), 200'000u);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {0, 1, 2, 3}, 1), false, kTile)), 0u);
}

TEST(Schedule, ReadsAgainTheFewestBytesAndNotTheFewestPieces) {
  const Model model = model_of({100'000, 100'000, 100'000, 900'000}, 0);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {3, 0, 1, 2}, 1), true, kTile)), 300'000u);
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {0, 3, 1, 2}, 1), true, kTile)), 200'000u);
}

// Against every choice of pieces, for a few of them.
TEST(Schedule, FindsTheHeaviestRun) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> sizes(2 + random() % 7);
    std::uint64_t total = 0;
    for (auto& size : sizes) total += size = 70'000 + random() % 300'000;
    const Model model = model_of(sizes, 0);
    std::vector<std::size_t> order(sizes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::uint64_t heaviest = 0;
    for (unsigned choice = 0; choice < 1u << order.size(); ++choice) {
      std::uint64_t bytes = 0;
      std::size_t next = 0;
      bool ascends = true;
      for (std::size_t i = 0; i < order.size() && ascends; ++i) {
        if (!(choice >> i & 1)) continue;
        ascends = order[i] >= next;
        next = order[i] + 1;
        bytes += sizes[order[i]];
      }
      if (ascends) heaviest = std::max(heaviest, bytes);
    }
    const std::uint64_t expected = heaviest < total / 2 ? total : total - heaviest;
    EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, order, 1), true, kTile)), expected) << "round " << round;
  }
}

TEST(Schedule, ScansTheWholeOfAnInputThatIsNotCopied) {
  Model model = model_of({500'000}, 0);
  model.tensors = test::make_model({{"t", DType::kU8, {500'000}, std::vector<std::byte>(500'000)}}).tensors;
  EXPECT_EQ(scanned(plan_schedule(model, layout_of(model, {0}, 1), true, kTile)), 500'000u);
}

}  // namespace
}  // namespace wconv::engine
