#include "process/lifeline.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>

namespace forklift::inline abi_0_1::process {
namespace {

struct Pipe {
  std::mutex mutex;
  os::Fd read_end;
  os::Fd write_end;
  std::uint64_t inode = 0;  // of both ends
};

// The numbers of descriptors that other code closed (close_range) may belong to other files by now: they must
// not be closed here and, above all, not be watched by a daemon.
void disown_foreign(Pipe& pipe) {
  for (os::Fd* const end : {&pipe.read_end, &pipe.write_end}) {
    if (end->valid() && end->inode() != pipe.inode) (void)end->release();
  }
}

Pipe& own_pipe() {
  static Pipe* const pipe = new Pipe;  // never destroyed: the write end closes with the process
  return *pipe;
}

// The handlers hold the lock across the fork, so that the child finds both ends or none.
void hold_pipe() { own_pipe().mutex.lock(); }
void let_pipe_go() { own_pipe().mutex.unlock(); }
void drop_pipe() {
  Pipe& pipe = own_pipe();
  disown_foreign(pipe);
  pipe.write_end.close();
  // The read end stays open for a daemon, which uses it next; lifeline() replaces it if this process starts
  // daemons itself.
  pipe.mutex.unlock();
}

// Of this process alone: a forked child has no timer, and the signal is not sent to it.
timer_t last_resort{};
itimerspec grace{};
volatile sig_atomic_t is_told = 0;

// A real-time signal that neither glibc nor, as far as is known, a runtime or a debugger uses.
int parent_gone() noexcept { return SIGRTMAX - 6; }

// The kernel signals again whenever another reader of the pipe ends after the last writer: each sibling is one.
// A second SIGINT would interrupt the cleaning up, and each would put off the timer.
void on_parent_gone(int) {
  if (is_told != 0) return;
  is_told = 1;
  const int before = errno;
  (void)::timer_settime(last_resort, 0, &grace, nullptr);
  (void)::kill(::getpid(), SIGINT);
  errno = before;
}

}  // namespace

Result<int> lifeline() {
  static std::once_flag installed;
  std::call_once(installed, [] { ::pthread_atfork(hold_pipe, let_pipe_go, drop_pipe); });
  Pipe& pipe = own_pipe();
  const std::lock_guard<std::mutex> lock(pipe.mutex);
  disown_foreign(pipe);
  if (!pipe.write_end.valid() || !pipe.read_end.valid()) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::system("pipe2", errno, "lifeline of daemons");
    (void)pipe.write_end.release();  // never closed: the daemons of the lost read end depend on it
    pipe.read_end = os::Fd(ends[0]);
    pipe.write_end = os::Fd(ends[1]);
    pipe.inode = pipe.read_end.inode();
  }
  return pipe.read_end.get();
}

Result<int> end_with_parent(int read_end) {
  // The process that is signalled is a property of the open file description, and the inherited description
  // is shared with the parent's other children.
  const std::string path = "/proc/self/fd/" + std::to_string(read_end);
  os::Fd own(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!own.valid()) return Status::system("open", errno, path);
  f_owner_ex owner{F_OWNER_PID, ::getpid()};
  if (::fcntl(own.get(), F_SETOWN_EX, &owner) != 0 || ::fcntl(own.get(), F_SETSIG, SIGKILL) != 0 ||
      ::fcntl(own.get(), F_SETFL, O_RDONLY | O_NONBLOCK | O_ASYNC) != 0) {
    return Status::system("fcntl(F_SETSIG)", errno, "lifeline");
  }
  // The parent may have ended before the kernel was asked. The new description cannot tell that, the old one
  // can.
  pollfd item{read_end, POLLIN, 0};
  if (::poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0) ::raise(SIGKILL);
  return own.release();  // stays open as long as the process
}

Status soften_end(int own, std::int64_t grace_ns) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  if (::timer_create(CLOCK_MONOTONIC, &event, &last_resort) != 0)
    return Status::system("timer_create", errno, "lifeline");
  grace.it_value = {static_cast<time_t>(grace_ns / 1'000'000'000),
                    static_cast<long>(grace_ns % 1'000'000'000)};
  is_told = 0;  // a forked child may have it from its parent
  struct sigaction action{};
  action.sa_handler = on_parent_gone;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (::sigaction(parent_gone(), &action, nullptr) != 0)
    return Status::system("sigaction", errno, "lifeline");
  if (::fcntl(own, F_SETSIG, parent_gone()) != 0) return Status::system("fcntl(F_SETSIG)", errno, "lifeline");
  return {};
}

}  // namespace forklift::inline abi_0_1::process
