// Running one function over many indexes on all cores.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace wconv {

// Cores this process may use: its affinity mask, and its cgroup's quota where that is lower. At least 1.
unsigned usable_cores();

// Threads that run `work`: `count`, or as many as the system lets start. All work must get done by any number, even
// none.
std::vector<std::jthread> start_threads(unsigned count, const std::function<void()>& work);

// Calls work(i) for every i below count, in ascending order of start, on up to `threads` threads (0: usable_cores()).
// The exception of the lowest index that failed is rethrown after all threads have stopped; later indexes may not run.
void parallel_for(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

}  // namespace wconv
