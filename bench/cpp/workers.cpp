#include "cpp/workers.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

namespace {

constexpr std::size_t kMostWorkers = 16;

struct Start {
  std::atomic<std::uint32_t> ready{0};
  std::atomic<std::uint32_t> done{0};
  struct Times {
    alignas(64) std::int64_t begin = 0;
    std::int64_t end = 0;
  } times[kMostWorkers];
};

[[noreturn]] void run_worker(const Worker& worker, std::size_t index, std::size_t workers, Bound bound,
                             Start& start) {
  // A child begins on its parent's processor; two that begin on the same one may stay there for a whole
  // measurement.
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity");
  pin_to(bound == Bound::kTogether ? 0 : static_cast<int>(index));
  if (bound == Bound::kNowhere && ::sched_setaffinity(0, sizeof allowed, &allowed) != 0)
    fail("sched_setaffinity");
  if (worker.warm_up) worker.warm_up();
  start.ready.fetch_add(1);
  SpinPolicy spin_policy;
  while (start.ready.load(std::memory_order_acquire) < workers) spin_policy.wait();
  start.times[index].begin = now_ns();
  worker.work();
  start.times[index].end = now_ns();
  start.done.fetch_add(1);
  if (worker.finish) {
    while (start.done.load(std::memory_order_acquire) < workers) ::usleep(100);
    worker.finish();
    std::exit(0);
  }
  ::_exit(0);
}

}  // namespace

double race(const std::vector<Worker>& workers, Bound bound) {
  if (workers.size() > kMostWorkers) fail("too many workers");
  Shared<Start> start;
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const pid_t pid = ::fork();
    if (pid < 0) fail("fork");
    if (pid == 0) run_worker(workers[i], i, workers.size(), bound, *start);
    pids.push_back(pid);
  }
  std::int64_t begin = INT64_MAX;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    int status = 0;
    while (::waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("a worker failed");
    begin = std::min(begin, start->times[i].begin);
    end = std::max(end, start->times[i].end);
  }
  return static_cast<double>(end - begin);
}

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int processors() { return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); }

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor % processors()), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

void fail(const char* what) {
  std::perror(what);
  std::fflush(stdout);
  ::_exit(1);
}

void* map_shared(std::size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (address == MAP_FAILED) fail("mmap");
  return address;
}

void unmap_shared(void* address, std::size_t bytes) { ::munmap(address, bytes); }

void copy_bytes(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void SpinPolicy::give_way() { ::sched_yield(); }

}  // namespace bench
