// Brings runtimes to rest at a fork, so that they work on both sides of it:
//
// - libgomp keeps a pool of threads for each thread that computes. A child has the pool's record but not its
//   threads, and hangs in its first parallel region. So the forking thread's pool is ended before the fork
//   (omp_pause_resource_all); each side makes a new one when it computes again. Where libgomp is too old for
//   that, the child computes on one thread (omp_set_num_threads).
// - OpenBLAS ends its threads itself, but hangs in the parent if another thread's call is in flight. So where
//   there are threads that may call it, the fork waits until they and OpenBLAS's own sleep (prepare_fork()), for
//   fork_timeout() at most. The forking thread has the interpreter's lock, and so no other Python thread begins a
//   call meanwhile.
//
// It happens in handlers of pthread_atfork. FORKLIFT_FORK_REST in the environment: "on", "off", or "single"
// (libgomp is treated as if it were too old).
// Thread safety: yes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "forklift/status.h"
#include "guard/libraries.h"

namespace forklift::inline abi_0_1::guard {

enum class RestMode : std::uint8_t {
  kOn,
  kSingle,
  kOff
};

RestMode rest_mode() noexcept;

// From now on forks of this process bring runtimes to rest. It must be called again before a fork if libraries
// were loaded since: handlers run in the opposite order of their registration, and ours must be OpenBLAS's
// predecessor. A call without news costs a microsecond.
void rest_at_forks();

// How long a fork waits for what this process computes: 60 s, or FORKLIFT_FORK_TIMEOUT (seconds).
std::chrono::nanoseconds fork_timeout() noexcept;
void set_fork_timeout(std::chrono::nanoseconds timeout) noexcept;

// kTimeout: no fork for this reason, after fork_timeout().
Status refuse_fork(const std::string& why);

// rest_at_forks(), and waits until no other thread has a call of OpenBLAS in flight. kTimeout: they go on; a fork
// would hang in this process. A handler cannot refuse a fork, so whoever can asks this before it. `interrupted` is
// asked between two looks, and ends the wait.
//
// While a thread of OpenBLAS's own computes, a call is in flight for certain, since they sleep 0.1 s after the last.
// A thread that may call it and computes alone is given a second: it may compute anything, for ever, and a call
// that leaves OpenBLAS's threads asleep does no harm. Forks that follow one another give it one second together.
Status prepare_fork(const std::function<bool()>& interrupted = {});

// Whether this copy of libgomp can end its threads.
bool can_pause(const Library& gomp);

bool is_gomp(const Library& library);
bool is_openblas(const Library& library);

}  // namespace forklift::inline abi_0_1::guard
