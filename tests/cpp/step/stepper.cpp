#include "step/stepper.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace forklift::test {

namespace {

#if defined(__x86_64__)
constexpr unsigned long kTrapCode = 0xcc;  // int3
constexpr unsigned long kTrapMask = 0xff;
constexpr std::uint64_t kTrapLength = 1;  // the counter stands behind it when it has hit
auto& counter_of(user_regs_struct& registers) { return registers.rip; }
#elif defined(__aarch64__)
constexpr unsigned long kTrapCode = 0xd4200000;  // brk #0
constexpr unsigned long kTrapMask = 0xffffffff;
constexpr std::uint64_t kTrapLength = 0;
auto& counter_of(user_regs_struct& registers) { return registers.pc; }
#endif

// ptrace's arguments are integers in pointers' clothes.
void* as_pointer(std::uint64_t value) { return reinterpret_cast<void*>(value); }

bool read_registers(pid_t pid, user_regs_struct& registers) {
  iovec range{&registers, sizeof registers};
  return ptrace(PTRACE_GETREGSET, pid, as_pointer(NT_PRSTATUS), &range) == 0;
}

void write_registers(pid_t pid, user_regs_struct& registers) {
  iovec range{&registers, sizeof registers};
  ptrace(PTRACE_SETREGSET, pid, as_pointer(NT_PRSTATUS), &range);
}

int wait_for_change(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, __WALL) < 0) {
    if (errno != EINTR) return W_EXITCODE(255, 0);
  }
  return status;
}

}  // namespace

void wait_gone(pid_t pid) {
  while (pid > 0 && (waitpid(pid, nullptr, __WALL) > 0 || errno == EINTR)) {
  }
}

Tracee Tracee::start(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    body();
    _exit(0);
  }
  Tracee tracee(pid);
  if (pid < 0) return tracee;
  const int status = wait_for_change(pid);
  if (!WIFSTOPPED(status) || (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)) {
    tracee.death_ = status;
    return tracee;
  }
  ptrace(PTRACE_SETOPTIONS, pid, nullptr, as_pointer(PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK));
  return tracee;
}

Tracee::Tracee(Tracee&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      forked_(other.forked_),
      death_(other.death_),
      deliver_(other.deliver_),
      armed_(other.armed_),
      original_(other.original_) {}

Tracee::~Tracee() { kill(); }

Tracee::Stop Tracee::interpret(int status) {
  if (!WIFSTOPPED(status)) {
    death_ = status;
    return Stop::kDead;
  }
  const int signal = WSTOPSIG(status);
  if (signal == SIGTRAP && (status >> 16) == PTRACE_EVENT_FORK) {
    unsigned long child = 0;
    ptrace(PTRACE_GETEVENTMSG, pid_, nullptr, &child);
    forked_ = static_cast<pid_t>(child);
    wait_for_change(forked_);  // its first stop
    if (armed_ != 0) disarm(forked_);
    return Stop::kFork;
  }
  if (signal == SIGTRAP) return Stop::kTrap;
  if (signal == SIGILL) return Stop::kEnd;
  if (signal == SIGCHLD || signal == SIGCONT) {
    deliver_ = signal;
    return Stop::kTrap;
  }
  death_ = status;
  return Stop::kDead;
}

Tracee::Stop Tracee::go(int request) {
  for (;;) {
    const int signal = std::exchange(deliver_, 0);
    if (ptrace(static_cast<__ptrace_request>(request), pid_, nullptr,
               as_pointer(static_cast<std::uint64_t>(signal))) != 0) {
      death_ = W_EXITCODE(254, 0);
      return Stop::kDead;
    }
    const Stop stop = interpret(wait_for_change(pid_));
    if (deliver_ == 0) return stop;
  }
}

Tracee::Stop Tracee::step() { return go(PTRACE_SINGLESTEP); }
Tracee::Stop Tracee::resume() { return go(PTRACE_CONT); }

std::uint64_t Tracee::program_counter() const {
  user_regs_struct registers{};
  return read_registers(pid_, registers) ? counter_of(registers) : 0;
}

bool Tracee::arm(std::uint64_t address) {
  const std::uint64_t word = address & ~std::uint64_t{7};
  const unsigned shift = static_cast<unsigned>(address & 7) * 8;
  errno = 0;
  original_ = ptrace(PTRACE_PEEKTEXT, pid_, as_pointer(word), nullptr);
  if (errno != 0) return false;
  const unsigned long planted =
      (static_cast<unsigned long>(original_) & ~(kTrapMask << shift)) | (kTrapCode << shift);
  if (ptrace(PTRACE_POKETEXT, pid_, as_pointer(word), as_pointer(planted)) != 0) return false;
  armed_ = address;
  return true;
}

void Tracee::disarm(pid_t pid) const {
  ptrace(PTRACE_POKETEXT, pid, as_pointer(armed_ & ~std::uint64_t{7}),
         as_pointer(static_cast<std::uint64_t>(original_)));
}

Tracee::Stop Tracee::run_to(std::uint64_t address, unsigned passes) {
  for (unsigned pass = 0;; ++pass) {
    if (!arm(address)) return Stop::kDead;
    Stop stop = resume();
    while (stop == Stop::kFork) stop = resume();
    if (stop != Stop::kDead) disarm(pid_);
    armed_ = 0;
    if (stop != Stop::kTrap) return stop;
    user_regs_struct registers{};
    if (!read_registers(pid_, registers)) return Stop::kDead;
    counter_of(registers) -= kTrapLength;
    write_registers(pid_, registers);
    if (pass == passes) return Stop::kTrap;
    stop = step();
    if (stop != Stop::kTrap) return stop;
  }
}

void Tracee::kill() {
  const pid_t pid = std::exchange(pid_, 0);
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  wait_gone(pid);
}

void Tracee::detach() {
  const pid_t pid = std::exchange(pid_, 0);
  if (pid > 0) ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
}

}  // namespace forklift::test
