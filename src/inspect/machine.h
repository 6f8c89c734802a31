// What the kernel says of other processes of the same user: their threads, and what each of them sleeps in.
//
//   const ProcessState process = look_at(pid);
//   if (!process.there) ...                     // it has ended, or never was
//
// What this process may not read is left empty: a call's number and arguments need the right to trace the other one
// (Yama's ptrace_scope), the rest needs the same user.
//
// Thread safety: any. Nothing of the other process changes, and it is not stopped for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forklift::inline abi_0_1::inspect {

// A system call in which a thread sleeps.
struct Call {
  long number = -1;
  std::uint64_t arguments[6] = {};
};

struct ThreadState {
  pid_t thread = 0;
  char state = 0;       // as in os/proc.h
  std::string name;     // the kernel's, at most 15 bytes
  std::string channel;  // the kernel's function that it sleeps in; empty: unknown
  std::optional<Call> call;

  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
  // It has ended; its process's parent has not waited for that yet.
  bool has_ended() const noexcept { return state == 'Z' || state == 'X'; }
  // One of this library's own threads, which acts for others.
  bool is_internal(pid_t process) const noexcept;
  // Sleeps on a futex without a time-out. Where the call cannot be read: a further thread that sleeps on a futex; whether
  // the main thread does is not known then.
  bool waits_for_memory(pid_t process) const noexcept;
  // Reads descriptor 0.
  bool reads_input() const noexcept;
  // The process whose end it waits for by a system call of its own; 0: none.
  pid_t waits_for_process() const noexcept;
};

struct ProcessState {
  pid_t pid = 0;
  bool there = false;  // false: no such process
  char state = 0;
  pid_t parent = 0;
  int wait_status = 0;          // of a zombie, as waitpid(2) would say; 0 where it cannot be read
  std::string name;             // of its main thread
  double cpu_seconds = 0;       // of all its threads
  std::uint64_t own_bytes = 0;  // resident, without files and shared memory
  std::vector<ThreadState> threads;
  std::vector<pid_t> children;

  bool is_zombie() const noexcept { return state == 'Z' || state == 'X'; }
  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
};

// How much is read of a process: a few numbers, or all of its threads, which takes a file or four for each.
enum class Detail : bool {
  kNumbers,
  kThreads
};
ProcessState look_at(pid_t pid, Detail detail = Detail::kThreads);

// "was killed by SIGKILL", "ended with exit code 3".
std::string ending_of(int wait_status);

}  // namespace forklift::inline abi_0_1::inspect
