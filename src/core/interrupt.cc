#include "wconv/interrupt.h"

#include "wconv/error.h"

namespace wconv {
namespace {
std::atomic<const std::atomic<int>*> g_flag{nullptr};
}

void interrupt_reads_on(const std::atomic<int>* flag) { g_flag = flag; }

void check_interrupted() {
  const std::atomic<int>* flag = g_flag.load(std::memory_order_relaxed);
  if (flag && flag->load(std::memory_order_relaxed) != 0) fail(ErrorCode::kInterrupted, "interrupted");
}

}  // namespace wconv
