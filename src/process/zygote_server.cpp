// The zygote's side of zygote.h.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "os/thread.h"
#include "process/launch.h"
#include "process/zygote.h"
#include "process/zygote_wire.h"

namespace forklift::inline abi_0_1::process {
namespace {

// The number of threads of this process; 0 if it is unknown.
int own_threads() {
  struct stat task{};
  if (::stat("/proc/self/task", &task) != 0 || task.st_nlink < 3) return 0;
  return static_cast<int>(task.st_nlink) - 2;  // each thread has a folder, beside "." and ".."
}

// Makes a copy of this process that has the same parent as this one. Returns as fork(3) does: 0 in the copy;
// -1 and errno on failure.
pid_t copy_beside_this() {
  int* thread_word = nullptr;
  void* robust_list = nullptr;
  std::size_t robust_size = 0;
  if (::prctl(PR_GET_TID_ADDRESS, &thread_word) != 0 || thread_word == nullptr ||
      *thread_word != static_cast<int>(::syscall(SYS_gettid)) ||
      ::syscall(SYS_get_robust_list, 0, &robust_list, &robust_size) != 0) {
    errno = ENOSYS;
    return -1;
  }
  constexpr unsigned long kFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__aarch64__)
  const long pid = ::syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, thread_word);
#else
  const long pid = ::syscall(SYS_clone, kFlags, nullptr, nullptr, thread_word, nullptr);
#endif
  if (pid == 0) {
    ::syscall(SYS_set_robust_list, robust_list, robust_size);
    os::detail::thread_id = 0;
  }
  return static_cast<pid_t>(pid);
}

// Does the parent know this child, and want it?
bool wait_for_go(int go) {
  const pid_t pid = ::getpid();
  (void)!::send(go, &pid, sizeof pid, MSG_NOSIGNAL);
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::recv(go, &byte, 1, 0);
  } while (got < 0 && errno == EINTR);
  return got == 1;
}

// Moves each descriptor to its number. False: no descriptor is free.
bool put_in_place(Request& request) {
  for (std::size_t i = 0; i < request.numbers.size(); ++i) {
    const int number = request.numbers[i];
    os::Fd& mine = request.descriptors[i + 1];
    if (mine.get() == number) {
      (void)mine.release();
      if (::fcntl(number, F_SETFD, 0) != 0) return false;
      continue;
    }
    for (std::size_t later = i + 1; later < request.numbers.size(); ++later) {
      os::Fd& other = request.descriptors[later + 1];
      if (other.get() != number) continue;
      other = os::Fd(::fcntl(number, F_DUPFD_CLOEXEC, 0));
      if (!other.valid()) return false;
    }
    if (::dup2(mine.get(), number) != number) return false;
    mine.close();
  }
  return true;
}

void become_child(Request& request) {
  if (!wait_for_go(request.descriptors[0].get())) ::_exit(0);
  request.descriptors[0].close();
  if (!put_in_place(request)) {
    std::perror("forklift: a forkserver's child cannot take its descriptors");
    ::_exit(1);
  }
  for (const std::string& variable : request.variables) {
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos)
      ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
}

// Ctrl-C is meant for the program; when the program ends, the zygote ends anyway.
class InterruptIgnored {
 public:
  InterruptIgnored() {
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~InterruptIgnored() { ::sigaction(SIGINT, &before_, nullptr); }
  InterruptIgnored(const InterruptIgnored&) = delete;
  InterruptIgnored& operator=(const InterruptIgnored&) = delete;

 private:
  struct sigaction before_{};
};

}  // namespace

bool serve_requests(os::Fd connection) {
  const InterruptIgnored guard;
  for (;;) {
    Result<std::optional<Request>> request = receive_request(connection.get());
    if (!request || !*request) return false;
    Reply reply;
    reply.threads = own_threads();
    if (reply.threads == 1) {
      reply.pid = copy_beside_this();
      if (reply.pid == 0) {
        connection.close();
        become_child(**request);
        return true;
      }
      if (reply.pid < 0) reply.error = errno;
    }
    request->reset();  // from here on only the child holds the descriptors
    (void)!::send(connection.get(), &reply, sizeof reply, MSG_NOSIGNAL);
  }
}

void serve_as_zygote() {
  const int inherited = std::atoi(std::getenv(kZygoteVariable));
  ::unsetenv(kZygoteVariable);
  os::Fd connection(::fcntl(inherited, F_DUPFD_CLOEXEC, 0));
  ::close(inherited);
  flush_streams();  // or the children would print again what was printed before init()
  if (!serve_requests(std::move(connection))) ::_exit(0);
}

}  // namespace forklift::inline abi_0_1::process
