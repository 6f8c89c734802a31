// Brings runtimes to rest at a fork, so that they work on both sides of it:
//
// - libgomp keeps a pool of threads for each thread that computes. A child has the pool's record but not its
//   threads, and hangs in its first parallel region. So the forking thread's pool is ended before the fork
//   (omp_pause_resource_all); each side makes a new one when it computes again. Where libgomp is too old for
//   that, the child computes on one thread (omp_set_num_threads).
// - OpenBLAS ends its threads itself, but hangs in the parent if another thread's call is in flight. So where
//   there are threads that may call it, the fork waits until they and OpenBLAS's own sleep, a second at most.
//   The forking thread has the interpreter's lock, and so no other Python thread begins a call meanwhile.
//
// It happens in handlers of pthread_atfork. FORKLIFT_FORK_REST in the environment: "on", "off", or "single"
// (libgomp is treated as if it were too old).
// Thread safety: yes.
#pragma once

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

// Whether this copy of libgomp can end its threads.
bool can_pause(const Library& gomp);

bool is_gomp(const Library& library);
bool is_openblas(const Library& library);

}  // namespace forklift::inline abi_0_1::guard
