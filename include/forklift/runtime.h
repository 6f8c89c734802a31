// The threads that compute operations on tensors (forklift/ops.h), and what a fork does with them.
//
//   runtime::set_threads(2);                             // 0: as many as there are processors
//   Tensor y = ops::exp(x);                              // queued, if it is large
//   runtime::synchronize();                              // everything is computed now
//   runtime::set_fork_timeout(std::chrono::seconds(5));  // how long a fork waits for that
//
// Threads start with the first large operation. Their number is that of the processors that this process may use (its
// affinity, and the quota of its control groups), or FORKLIFT_NUM_THREADS; the thread that waits for a result is one of
// them.
//
// Fork: before any fork(2) of this process, however it came about, its operations are completed, at most the time of
// fork_timeout() long (60 s; FORKLIFT_FORK_TIMEOUT in seconds), while other threads' operations wait; then the threads
// end, so that the child misses none. Both processes start new ones when they compute again. Process and Pool refuse to
// fork when the time has passed (Error, kTimeout, naming the operation). A fork that cannot be refused goes on, and what
// was not computed fails in the child with kBrokenByFork. Starting a process by any other method does nothing of this.
//
// Thread safety: all functions, yes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace forklift::inline abi_0_1::runtime {

// How many threads compute, the waiting one included. set_threads() waits for those of before.
std::size_t threads();
// 0: as many as there are processors.
void set_threads(std::size_t count);

// Operations that are queued or being computed.
std::size_t in_flight();
// Waits for all that were queued before this call.
void synchronize();

// How long a fork waits until everything is computed, and until calls of OpenBLAS in other threads have ended.
std::chrono::nanoseconds fork_timeout();
// A negative one counts as zero: a fork is refused unless everything is computed.
void set_fork_timeout(std::chrono::nanoseconds timeout);

// How often this process went through the steps of a fork.
struct ForkCounts {
  std::uint64_t prepared = 0;  // before a fork
  std::uint64_t parents = 0;   // after one, in the parent, whether it succeeded or not
  std::uint64_t children = 0;  // after one, in the child
};
ForkCounts fork_counts() noexcept;

}  // namespace forklift::inline abi_0_1::runtime
