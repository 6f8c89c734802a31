// A child process that is run one instruction at a time, or up to a chosen instruction, and then killed.
//
//   Tracee child = Tracee::start([] { prepare(); begin_marker(); act(); end_marker(); });
//   child.step();                 // one instruction; a system call counts as one
//   child.run_to(address, 2);     // full speed, until the instruction is about to be executed for the third
//   time child.kill();                 // SIGKILL, and waits until nothing of it is left
//
// How: PTRACE_TRACEME and PTRACE_SINGLESTEP; run_to plants a breakpoint in the child's own copy of the code.
// Children of one parent have one address layout, so an address that one of them passed means the same in the
// next. If the parent dies, the kernel kills the children (PTRACE_O_EXITKILL).
//
// On AArch64 the code must be built with atomics that are single instructions (LSE, or the compiler's outline
// atomics): an exclusive load and its store never succeed when a trap lies between them.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>

namespace forklift::test {

// Where stepping begins. A trap, which the parent sees as the child's first SIGTRAP or SIGSTOP.
inline void begin_marker() {
#if defined(__x86_64__)
  asm volatile("int3" ::: "memory");
#else
  std::raise(SIGSTOP);
#endif
}

// Where it ends: an instruction that does not exist, so the parent sees SIGILL.
inline void end_marker() {
#if defined(__x86_64__)
  asm volatile("ud2" ::: "memory");
#elif defined(__aarch64__)
  asm volatile(".inst 0" ::: "memory");
#else
#error "name an undefined instruction of this machine"
#endif
}

class Tracee {
 public:
  enum class Stop {
    kTrap,  // a step was made, or a breakpoint reached
    kEnd,   // the end marker was reached
    kFork,  // it has just forked: see forked()
    kDead   // it ended or was hit by a signal by itself: see death()
  };

  // Forks a child that runs `body`, which must execute begin_marker() once; returns when it has stopped
  // there.
  static Tracee start(const std::function<void()>& body);
  explicit Tracee(pid_t stopped) : pid_(stopped) {}
  Tracee(Tracee&& other) noexcept;
  Tracee& operator=(Tracee&&) = delete;
  ~Tracee();

  pid_t pid() const noexcept { return pid_; }
  // Stopped in its body. False when the body never came to its begin marker.
  bool valid() const noexcept { return pid_ > 0 && death_ == 0; }
  Stop step();
  Stop resume();
  // Runs until the instruction at `address` is about to be executed once more after `passes` times.
  Stop run_to(std::uint64_t address, unsigned passes);
  std::uint64_t program_counter() const;
  // The child that it forked, stopped before its first instruction; 0: none yet. The caller ends it.
  pid_t forked() const noexcept { return forked_; }
  // The wait status of a tracee that ended, or stopped with a signal that nobody sent.
  int death() const noexcept { return death_; }

  // Gone when this returns, and waited for. May be called again.
  void kill();
  // Lets it run on its own.
  void detach();

 private:
  Stop go(int request);
  Stop interpret(int status);
  bool arm(std::uint64_t address);
  void disarm(pid_t pid) const;

  pid_t pid_ = 0;
  pid_t forked_ = 0;
  int death_ = 0;
  int deliver_ = 0;  // signal to hand on with the next step
  std::uint64_t armed_ = 0;
  long original_ = 0;
};

// Waits until no process with this id is left to be waited for.
void wait_gone(pid_t pid);

}  // namespace forklift::test
