#include "guard/stacks.h"

#include <execinfo.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace forklift::inline abi_0_1::guard {

namespace {

constexpr int kFrames = 64;
std::atomic<int> stack_file{-1};

void write_all(int file, const char* text, std::size_t length) noexcept {
  while (length > 0) {
    const ssize_t written = ::write(file, text, length);
    if (written <= 0) return;
    text += written;
    length -= static_cast<std::size_t>(written);
  }
}

void write_stack(int) {
  const int error = errno;
  const int file = stack_file.load();
  char head[64] = "thread ";
  char* end = std::to_chars(head + 7, head + 24, ::syscall(SYS_gettid)).ptr;
  *end++ = ' ';
  ::prctl(PR_GET_NAME, end);  // 16 bytes at most
  end += std::strlen(end);
  *end++ = '\n';
  write_all(file, head, static_cast<std::size_t>(end - head));
  std::array<void*, kFrames> frames;
  const int count = ::backtrace(frames.data(), kFrames);
  // The first two are this handler and the kernel's trampoline.
  const int skipped = count > 2 ? 2 : 0;
  ::backtrace_symbols_fd(frames.data() + skipped, count - skipped, file);
  write_all(file, kEndOfStack.data(), kEndOfStack.size());
  errno = error;
}

}  // namespace

int unused_signal(int below) noexcept {
  for (int number = below - 1; number >= SIGRTMIN; --number) {
    struct sigaction now{};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) return number;
  }
  return 0;
}

Result<StackSignal> StackSignal::arm(int file) {
  const int number = unused_signal(SIGRTMAX + 1);
  if (number == 0) return {Code::kNoSpace, "every real-time signal is in use"};
  std::array<void*, 1> once{};
  ::backtrace(once.data(), 1);
  stack_file.store(file);
  struct sigaction action{};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigfillset(&action.sa_mask);
  if (::sigaction(number, &action, nullptr) != 0)
    return Status::system("sigaction", errno, "a stack's signal");
  return StackSignal(number);
}

void StackSignal::disarm() noexcept { ::signal(number_, SIG_DFL); }

Status request_stack(pid_t process, pid_t thread, int signal_number) {
  if (::syscall(SYS_tgkill, process, thread, signal_number) == 0) return {};
  return Status::system("tgkill", errno, "thread " + std::to_string(thread));
}

}  // namespace forklift::inline abi_0_1::guard
