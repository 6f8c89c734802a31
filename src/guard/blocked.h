// What the threads of another process wait for, as far as the kernel tells, and whether it can ever go on.
//
// A process is deadlocked if each of its threads waits, without a time-out, for a private futex: only a thread
// of the same process could wake it. (A signal handler might; nothing else.) Forklift's own waits are on shared
// futexes or on descriptors, so a process that waits for another one is never taken for deadlocked.
//
// Some libraries wait with time-outs, look again, and wait on. Such a process waits for itself, too, but so does
// one that uses a timed lock to sleep: the caller has to tell them apart.
//
// Thread safety: yes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::guard {

struct BlockedThread {
  pid_t id = 0;
  std::string name;
  char state = 0;
  bool in_own_lock = false;  // in a private futex
  bool forever = false;      // and without a time-out
  std::string waits;         // "futex 0x7f... (private)", "system call 230", "running"; empty: unknown
};

struct Blocked {
  std::vector<BlockedThread> threads;
  std::uint64_t cpu_ticks = 0;    // used so far by the whole process
  bool deadlocked() const;        // each of its threads waits for ever
  bool waits_for_itself() const;  // each is in a private futex, with or without a time-out
};

// kNotFound: the process has ended. kRefused: the kernel does not show its system calls to this process.
Result<Blocked> blocked_threads(pid_t process);

}  // namespace forklift::inline abi_0_1::guard
