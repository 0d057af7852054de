#include "core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>

namespace wconv {
namespace {

// cgroup v2 cpu.max: "QUOTA PERIOD" or "max PERIOD". 0: no limit.
unsigned cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double cores = std::strtod(quota.c_str(), nullptr) / period;
  return std::max(1u, static_cast<unsigned>(cores));
}

}  // namespace

unsigned usable_cores() {
  cpu_set_t set;
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1u, static_cast<unsigned>(CPU_COUNT(&set)));
  const unsigned quota = cgroup_cores();
  return quota == 0 ? cores : std::min(cores, quota);
}

std::vector<std::jthread> start_threads(unsigned count, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::system_error&) {  // a limit of threads or of address space
  }
  return threads;
}

void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work) {
  if (threads == 0) threads = usable_cores();
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, count));
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::size_t first_failed = count;
  std::exception_ptr error;
  const auto run = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const std::size_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < first_failed) {
          first_failed = i;
          error = std::current_exception();
        }
        failed = true;
      }
    }
  };
  std::vector<std::jthread> others = start_threads(threads > 0 ? threads - 1 : 0, run);
  run();
  others.clear();  // joins
  if (error) std::rethrow_exception(error);
}

}  // namespace wconv
