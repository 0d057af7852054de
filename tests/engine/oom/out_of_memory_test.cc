// The engine when an allocation fails: an error, and no thread is left waiting.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <new>
#include <thread>
#include <utility>

#include "engine/ordered_hasher.h"
#include "support/support.h"
#include "wconv/engine.h"

// Sanitizers bring an allocator of their own; there this file holds no test.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
thread_local bool next_allocation_fails = false;
}

// For all tests of this program.
void* operator new(std::size_t size) {
  if (std::exchange(next_allocation_fails, false)) throw std::bad_alloc();
  void* bytes = std::malloc(size > 0 ? size : 1);
  if (!bytes) throw std::bad_alloc();
  return bytes;
}
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, std::size_t) noexcept { std::free(bytes); }

namespace wconv::engine {
namespace {

TEST(OutOfMemory, ABufferThatCannotBeLentStaysInThePool) {
  ::alarm(60);  // a deadlock ends the program
  BufferPool pool(1, 16);
  next_allocation_fails = true;
  EXPECT_THROW(pool.take(), std::bad_alloc);
  EXPECT_FALSE(pool.empty());
  EXPECT_TRUE(pool.take());
  ::alarm(0);
}

// Its first two reads wait for each other, so that two threads have a task.
class MeetingData : public TensorData {
 public:
  std::uint64_t size_bytes() const override { return 4 * 1024 * 1024; }
  void read(std::uint64_t, std::span<std::byte> out) const override {
    if (reads_.fetch_add(1) < 2) both_.arrive_and_wait();
    std::fill(out.begin(), out.end(), std::byte{1});
  }

 private:
  mutable std::atomic<int> reads_{0};
  mutable std::latch both_{2};
};

TEST(OutOfMemory, InAnyThreadIsAnErrorOfTheRun) {
  const test::TempDir dir;
  Model model = test::make_model({{"t", DType::kU8, {4 * 1024 * 1024}, std::vector<std::byte>(4 * 1024 * 1024)}});
  model.tensors[0].data = std::make_shared<MeetingData>();
  Piece piece;
  piece.content = TensorPiece{0, 4 * 1024 * 1024};
  const Layout layout{{{"out", 4 * 1024 * 1024, {piece}}}};
  EngineOptions options;
  options.threads = 2;
  options.hash = false;
  const auto main_thread = std::this_thread::get_id();
  options.progress = [&](std::uint64_t, std::uint64_t) {
    if (std::this_thread::get_id() != main_thread) next_allocation_fails = true;
  };
  Output output(dir / "out", false, false);
  EXPECT_THROW(execute(model, layout, output, options), std::bad_alloc);
}

}  // namespace
}  // namespace wconv::engine

#endif
