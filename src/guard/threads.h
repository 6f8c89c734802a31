// The other threads of this process, and which library each belongs to.
//
// A thread's name says little: threads of most runtimes have the program's. Its owner is the library whose
// function it was started with. That stands at the top of its stack: the kernel tells where the stack of a
// sleeping thread ends (/proc/self/task/TID/syscall), and this process can read it. Of a thread that has never
// been seen asleep the stack is searched by the thread's id, on x86-64; elsewhere its owner is unknown. The owner
// is kept as long as the thread lives.
//
// Thread safety: yes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "guard/libraries.h"

namespace forklift::inline abi_0_1::guard {

inline bool is_busy(char state) { return state == 'R' || state == 'D'; }

struct Thread {
  pid_t id = 0;
  std::string name;
  char state = 0;     // as in /proc/PID/stat: 'R' runs, 'S' sleeps
  std::string owner;  // the file of the library that started it; empty: unknown
  bool busy() const { return is_busy(state); }
};

// How many threads this process has; 0 if it cannot be told.
int count_threads() noexcept;

// Whether one of them runs. Cheaper than the list.
bool another_thread_is_busy();

// All threads except the calling one.
std::vector<Thread> other_threads(const Libraries& libraries);

}  // namespace forklift::inline abi_0_1::guard
