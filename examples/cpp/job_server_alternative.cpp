// The same jobs through a socket pair, without Forklift. See job_server.cpp.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <span>
#include <system_error>
#include <vector>

#include "job_server.h"

namespace {

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

// Answers by the job's number, in memory that children share with this process.
class Answers {
 public:
  explicit Answers(std::size_t count) : bytes_(count * sizeof(std::int64_t)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) fail("mmap");
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() { ::munmap(memory_, bytes_); }
  std::span<std::int64_t> span() const {
    return {static_cast<std::int64_t*>(memory_), bytes_ / sizeof(std::int64_t)};
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Two ends of a socket that keeps messages apart: several processes may read from one.
struct SocketPair {
  SocketPair() {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) != 0) fail("socketpair");
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  ~SocketPair() {
    close(0);
    close(1);
  }
  void close(std::size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{};
};

template <class Function>
pid_t fork_child(Function function) {
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child > 0) return child;
  try {
    function();
    ::_exit(0);
  } catch (...) {
    ::_exit(1);
  }
}

void feed(int socket, std::int64_t jobs) {
  for (std::int64_t number = 0; number < jobs; ++number) {
    const Job job{number};
    while (::send(socket, &job, sizeof job, MSG_NOSIGNAL) < 0) {
      if (errno != EINTR) fail("send");
    }
  }
}

void consume(int socket, const Answers& answers, bool with_accidents) {
  for (Job job{};;) {
    const ssize_t n = ::recv(socket, &job, sizeof job, 0);
    if (n == 0) return;  // nothing more will come
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof job) fail("recv");
    try {
      answers.span()[static_cast<std::size_t>(job.number)] = work(job, 1, with_accidents);
    } catch (const std::runtime_error&) {
      // It has failed: nothing here knows how often it was tried.
    }
  }
}

}  // namespace

std::int64_t with_sockets(std::int64_t jobs, int workers, bool with_accidents) {
  const Answers answers(static_cast<std::size_t>(jobs));
  SocketPair pair;
  // A process that feeds, since this one has to start new workers while the socket is full.
  const pid_t feeder = fork_child([&] {
    pair.close(1);
    feed(pair.ends[0], jobs);
  });
  pair.close(0);
  std::vector<pid_t> running;
  const auto start = [&] {
    running.push_back(fork_child([&] { consume(pair.ends[1], answers, with_accidents); }));
  };
  for (int i = 0; i < workers; ++i) start();
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0 && errno != EINTR) fail("wait");
    if (std::erase(running, ended) != 0 && WIFSIGNALED(status)) start();
  }
  while (::waitpid(feeder, nullptr, 0) < 0 && errno == EINTR) {
  }
  return std::count_if(answers.span().begin(), answers.span().end(),
                       [](std::int64_t answer) { return answer != 0; });
}
