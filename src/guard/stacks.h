// Lets a process write its native stacks when its parent asks, also while it hangs in a lock.
//
//   Result<StackSignal> armed = StackSignal::arm(file);    // in the parent, before the fork
//   ... fork ...
//   armed.disarm();                                        // in the parent, after it
//   request_stack(child, thread, armed.number());          // the parent asks; the child appends to the file
//
// The handler uses nothing that takes a lock: backtrace(), which arm() has called once so that its library is
// loaded, and backtrace_symbols_fd(). It ends each stack with kEndOfStack.
// Thread safety: arm and disarm are for one thread at a time.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string_view>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::guard {

inline constexpr std::string_view kEndOfStack = "-- end of stack\n";

class StackSignal {
 public:
  // Installs the handler for a real-time signal that nobody uses. `file` stays the caller's. kNoSpace: all are
  // in use.
  static Result<StackSignal> arm(int file);

  int number() const noexcept { return number_; }
  void disarm() noexcept;

 private:
  explicit StackSignal(int number) noexcept : number_(number) {}
  int number_;
};

// A real-time signal that has its default action; 0 if there is none. `below`: only smaller numbers.
int unused_signal(int below) noexcept;

// Sends the signal to one thread of a process.
Status request_stack(pid_t process, pid_t thread, int signal_number);

}  // namespace forklift::inline abi_0_1::guard
