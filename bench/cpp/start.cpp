// cpp-start-*: start a process that does nothing, and join it, with fork, forkserver and spawn. Beside them
// the bare system calls: fork and waitpid, and posix_spawn of this very program and waitpid. cpp-start-grown:
// the same with forkserver in a process that has grown by 256 MB; a fork would copy its page tables.
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/context.h"

namespace bench {
namespace {

constexpr std::size_t kGrown = 256U << 20U;

void nothing() {}
const forklift::Registered<&nothing> kNothing{"bench.nothing"};

template <class Start>
double each_us(std::size_t count, Start&& start) {
  for (std::size_t i = 0; i < count / 10 + 1; ++i) start();
  const std::int64_t begin = now_ns();
  for (std::size_t i = 0; i < count; ++i) start();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count) / 1e3;
}

double ours(const Run& run, forklift::Context context, std::size_t full) {
  return each_us(run.count(full), [&] { context.process(nothing).start().join(); });
}

void fork_and_wait() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  if (pid < 0 || ::waitpid(pid, nullptr, 0) != pid) fail("fork");
}

void spawn_and_wait() {
  char program[] = "/proc/self/exe";
  char word[] = "--nothing";
  char* argv[] = {program, word, nullptr};
  pid_t pid = 0;
  if (::posix_spawn(&pid, program, nullptr, nullptr, argv, environ) != 0 || ::waitpid(pid, nullptr, 0) != pid)
    fail("posix_spawn");
}

// Private memory whose pages all exist.
class Grown {
 public:
  Grown() : memory_(::mmap(nullptr, kGrown, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) fail("mmap");
    ::madvise(memory_, kGrown, MADV_NOHUGEPAGE);
    for (std::size_t at = 0; at < kGrown; at += 4096) static_cast<volatile char*>(memory_)[at] = 1;
  }
  ~Grown() { ::munmap(memory_, kGrown); }
  Grown(const Grown&) = delete;
  Grown& operator=(const Grown&) = delete;

 private:
  void* memory_;
};

const Contender fork_ours{"cpp-start-fork", "forklift", Role::kOurs, "us",
                          [](const Run& run) { return ours(run, forklift::fork_context(), 500); }};
const Contender fork_floor{"cpp-start-fork", "fork and wait", Role::kFloor, "us",
                           [](const Run& run) { return each_us(run.count(500), fork_and_wait); }};

const Contender copy_ours{"cpp-start-forkserver", "forklift", Role::kOurs, "us",
                          [](const Run& run) { return ours(run, forklift::forkserver_context(), 500); }};
const Contender copy_floor{"cpp-start-forkserver", "fork and wait", Role::kFloor, "us",
                           [](const Run& run) { return each_us(run.count(500), fork_and_wait); }};

const Contender spawn_ours{"cpp-start-spawn", "forklift", Role::kOurs, "us",
                           [](const Run& run) { return ours(run, forklift::spawn_context(), 200); }};
const Contender spawn_floor{"cpp-start-spawn", "posix_spawn and wait", Role::kFloor, "us",
                            [](const Run& run) { return each_us(run.count(200), spawn_and_wait); }};

const Contender grown_ours{"cpp-start-grown", "forklift", Role::kOurs, "us", [](const Run& run) {
                             const Grown memory;
                             return ours(run, forklift::forkserver_context(), 200);
                           }};
const Contender grown_fork{"cpp-start-grown", "fork and wait", Role::kPeer, "us", [](const Run& run) {
                             const Grown memory;
                             return each_us(run.count(100), fork_and_wait);
                           }};

}  // namespace
}  // namespace bench
