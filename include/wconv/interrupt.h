// How a signal ends work that only reads. Work that writes looks at EngineOptions::interrupted.
#pragma once

#include <atomic>

namespace wconv {

// For the whole process: once `flag`, which must outlive it, is not zero, every read of a file, open_model and
// scan_model throw Error(kInterrupted). Null, as at the start: never.
void interrupt_reads_on(const std::atomic<int>* flag);
void check_interrupted();

}  // namespace wconv
