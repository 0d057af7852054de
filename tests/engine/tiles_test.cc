#include "engine/tiles.h"

#include <gtest/gtest.h>

#include "core/threads.h"
#include "support/support.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::engine {
namespace {

constexpr std::uint64_t kTile = 64 * 1024;

Piece piece(std::uint64_t offset, auto content) {
  Piece made;
  made.offset = offset;
  made.content = std::move(content);
  return made;
}

OutputFile output(std::uint64_t size, std::vector<Piece> pieces) { return {"out", size, std::move(pieces)}; }

Model zeros(DType dtype, std::uint64_t elements) {
  const std::vector<std::uint64_t> shape = {elements};
  return test::make_model({{"t", dtype, shape, std::vector<std::byte>(storage_bytes(dtype, shape))}});
}

Budget budget_for(unsigned threads, std::uint64_t max_memory) {
  EngineOptions options;
  options.threads = threads;
  options.max_memory = max_memory;
  return plan_budget({}, options);
}

// Every byte in exactly one task, in ascending order.
void expect_whole(const std::vector<Task>& tasks, std::uint64_t size) {
  std::uint64_t next = 0;
  for (const Task& task : tasks) {
    EXPECT_EQ(task.begin, next);
    EXPECT_LT(task.begin, task.end);
    next = task.end;
  }
  EXPECT_EQ(next, size);
}

TEST(OutputTasks, CutTensorsAtWholeBlocks) {
  const Model model = zeros(DType::kQ6_K, 256 * 3001);  // blocks of 210 bytes
  const std::uint64_t bytes = model.tensors[0].data->size_bytes();
  const Layout layout{
      {output(100 + bytes, {piece(0, LiteralPiece{std::vector<std::byte>(33)}), piece(100, TensorPiece{0, bytes})})}};
  const auto tasks = output_tasks(model, layout, true, kTile);
  expect_whole(tasks, 100 + bytes);
  ASSERT_GT(tasks.size(), 5u);
  for (const Task& task : tasks) {
    EXPECT_LE(task.end - task.begin, kTile);
    EXPECT_TRUE(task.begin == 0 || (task.begin - 100) % 210 == 0) << task.begin;
  }
}

TEST(OutputTasks, GapsOfAnySizeStayWithinATile) {
  const Model model = zeros(DType::kU8, 10);
  const std::uint64_t gap = 5 * kTile + 7;
  for (const bool crc : {false, true}) {
    std::vector<Piece> pieces = {piece(0, TensorPiece{0, 10, crc})};
    if (crc) pieces.push_back(piece(10 + gap, Crc32Piece{0}));
    if (!crc) pieces.push_back(piece(10 + gap, LiteralPiece{std::vector<std::byte>(4)}));
    const auto tasks = output_tasks(model, {{output(14 + 2 * gap, pieces)}}, true, kTile);
    expect_whole(tasks, 14 + 2 * gap);
    for (const Task& task : tasks) EXPECT_LE(task.end - task.begin, kTile);
  }
}

TEST(OutputTasks, CrcSlotsAreNeverCut) {
  for (std::uint64_t size = kTile - 6; size < kTile + 2; ++size) {
    const Model model = zeros(DType::kU8, size);
    const Layout layout{{output(size + 4, {piece(0, TensorPiece{0, size, true}), piece(size, Crc32Piece{0})})}};
    const auto tasks = output_tasks(model, layout, true, kTile);
    expect_whole(tasks, size + 4);
    for (const Task& task : tasks) EXPECT_EQ(task.has_crc_slots, task.begin <= size && size + 4 <= task.end);
    EXPECT_TRUE(tasks.back().has_crc_slots);
  }
}

TEST(OutputTasks, KernelCopiesOnlyLargePlainRangesOfFilesWithoutHashing) {
  const test::TempDir dir;
  test::write_file(dir / "in", std::string(3 << 20, 'x'));
  Model model = zeros(DType::kU8, 1);
  model.tensors[0].data = file_tensor(File::open(dir / "in"), 0, 3 << 20);
  const Layout layout{
      {output(8 + (3 << 20), {piece(0, LiteralPiece{std::vector<std::byte>(8)}), piece(8, TensorPiece{0, 3 << 20})})}};
  const auto copied = output_tasks(model, layout, false, kTile);
  expect_whole(copied, layout.files[0].size);
  ASSERT_EQ(copied.size(), 2u);
  EXPECT_EQ(copied[0].kind, TaskKind::kAssemble);
  EXPECT_EQ(copied[1].kind, TaskKind::kKernelCopy);
  for (const Task& task : output_tasks(model, layout, true, kTile)) EXPECT_EQ(task.kind, TaskKind::kAssemble);
}

TEST(OutputTasks, RefuseALayoutThatOverlapsOrLeavesTheFile) {
  const Model model = zeros(DType::kU8, 100'000);
  const auto cut = [&](std::uint64_t size, std::uint64_t second) {
    return output_tasks(model,
                        {{output(size, {piece(0, TensorPiece{0, 100'000}), piece(second, TensorPiece{0, 100'000})})}},
                        true, kTile);
  };
  EXPECT_NO_THROW(cut(200'000, 100'000));
  for (const auto& [size, second] : {std::pair{200'000, 1'000}, {199'999, 100'000}}) {
    try {
      cut(static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(second));
      ADD_FAILURE() << size << ' ' << second;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
    }
  }
}

TEST(PlanBudget, FitsTheLimitForAnyNumberOfThreads) {
  constexpr std::uint64_t kMiB = 1024 * 1024;
  for (const unsigned threads : {1u, 2u, 7u, 64u, 1000u}) {
    for (const std::uint64_t limit : {25 * kMiB, 32 * kMiB, 64 * kMiB, 1024 * kMiB}) {
      const Budget budget = budget_for(threads, limit);
      EXPECT_LE(budget.buffers * budget.tile_bytes, limit - 24 * kMiB) << threads << ' ' << limit;
      EXPECT_GE(budget.buffers, 2u * budget.threads + 2) << "each thread holds one while it waits for its turn";
      EXPECT_GE(budget.threads, 1u);
    }
  }
  EXPECT_EQ(budget_for(0, 0).threads, usable_cores());
}

TEST(PlanBudget, RefusesALimitThatIsTooSmallAndSaysHowMuchIsNeeded) {
  try {
    budget_for(0, 1024 * 1024);
    FAIL() << "1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    const std::string text = error.what();
    const std::uint64_t needed = std::stoull(text.substr(text.find("the ") + 4));
    EXPECT_NO_THROW(budget_for(0, needed)) << text;
    EXPECT_THROW(budget_for(0, needed - 1), Error);
  }
}

TEST(RecordScans, CoverTheRecordsInOrder) {
  Model model;
  const auto file = File::from_bytes("a.pth", std::vector<std::byte>(200'000));
  model.files.push_back({"a.pth", 200'000, file});
  test::add_record(model, file, 150'000, 50'000, 0, "second");
  test::add_record(model, file, 100, 10, 0, "first");
  const auto records = record_scans(model, kTile);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].begin, 100u);
  EXPECT_EQ(records[0].end, 110u);
  EXPECT_EQ(records[1].begin, 150'000u);
  EXPECT_EQ(records[1].end, 200'000u);
}

TEST(PlanBudget, CountsTheListOfTasks) {
  const Layout layout{{output(std::uint64_t{1} << 40, {})}};
  EngineOptions options;
  options.threads = 8;
  options.max_memory = 128 << 20;
  const Budget budget = plan_budget(layout, options);
  const std::uint64_t tasks = output_tasks({}, layout, true, budget.tile_bytes).size();
  EXPECT_LE(budget.buffers * budget.tile_bytes + 2 * tasks * sizeof(Task), options.max_memory - (24 << 20));
  options.max_memory = 64 << 20;
  try {
    plan_budget(layout, options);
    FAIL() << "a list of 2^18 tasks does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    std::uint64_t limit = 0, needed = 0;
    ASSERT_EQ(std::sscanf(error.message().c_str(), "--max-memory %lu is below the %lu bytes", &limit, &needed), 2);
    options.max_memory = needed;
    EXPECT_EQ(plan_budget(layout, options).threads, 1u);
  }
}

}  // namespace
}  // namespace wconv::engine
