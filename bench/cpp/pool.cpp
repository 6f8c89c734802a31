// cpp-pool: trivial tasks through a pool of two workers; the whole time divided by the number of tasks.
// cpp-pool-apply: one task at a time; the time from the call to its result.
//
// The floor is the pool's parts without the pool: two bare channels, and two processes that take from one and
// put into the other.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <numeric>
#include <optional>
#include <vector>

#include "cpp/case.h"
#include "cpp/ours.h"
#include "forklift/pool.h"

namespace bench {
namespace {

constexpr std::size_t kWorkers = 2;
constexpr std::size_t kTasks = 200'000;
constexpr std::size_t kCalls = 20'000;

int increment(int x) { return x + 1; }
const forklift::Registered<&increment> registered_increment{"bench increment"};

// As Pool::map does it: after this many tasks are submitted, the answers that have come are taken in.
constexpr std::size_t kBetween = 256;

class BareChannels {
 public:
  BareChannels() {
    for (pid_t& pid : workers_) {
      pid = ::fork();
      if (pid < 0) fail("fork");
      if (pid == 0) work();
    }
  }
  BareChannels(const BareChannels&) = delete;
  BareChannels& operator=(const BareChannels&) = delete;
  ~BareChannels() {
    for (const pid_t pid : workers_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    (void)node().domain().reap();
  }

  void submit() { tasks_.send(task_); }
  void collect() { answers_.receive(answer_); }
  std::size_t arrived() { return answers_.channel().size(); }

 private:
  [[noreturn]] void work() {
    for (;;) {
      tasks_.receive(task_);
      answers_.send(answer_);
    }
  }

  OurChannel tasks_;
  OurChannel answers_;
  std::array<std::byte, 20> task_{};  // as large as a pool's message
  std::array<std::byte, 4> answer_{};
  std::array<pid_t, kWorkers> workers_{};
};

double nothing_but_channels(const Run& run) {
  BareChannels channels;
  const auto flow = [&](std::size_t count) {
    std::size_t collected = 0;
    for (std::size_t sent = 1; sent <= count; ++sent) {
      channels.submit();
      if (sent % kBetween != 0) continue;
      for (std::size_t left = channels.arrived(); left > 0; --left, ++collected) channels.collect();
    }
    for (; collected < count; ++collected) channels.collect();
  };
  const std::size_t count = run.count(kTasks);
  flow(count / 10);
  const std::int64_t begin = now_ns();
  flow(count);
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count);
}

double mapped(const Run& run) {
  forklift::Pool pool({.workers = kWorkers});
  std::vector<int> numbers(run.count(kTasks));
  std::iota(numbers.begin(), numbers.end(), 0);
  (void)pool.map(increment, std::vector<int>(numbers.size() / 10));
  const std::int64_t begin = now_ns();
  const std::vector<int> results = pool.map(increment, numbers);
  const std::int64_t end = now_ns();
  if (results.back() != numbers.back() + 1) fail("a wrong result");
  return static_cast<double>(end - begin) / static_cast<double>(numbers.size());
}

double applied_us(const Run& run) {
  forklift::Pool pool({.workers = kWorkers});
  const std::size_t count = run.count(kCalls);
  for (std::size_t i = 0; i < count / 10; ++i) keep(pool.apply(increment, 1));
  const std::int64_t begin = now_ns();
  for (std::size_t i = 0; i < count; ++i) keep(pool.apply(increment, 1));
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count) / 1e3;
}

double called_us(const Run& run) {
  BareChannels channels;
  const auto call = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      channels.submit();
      channels.collect();
    }
  };
  const std::size_t count = run.count(kCalls);
  call(count / 10);
  const std::int64_t begin = now_ns();
  call(count);
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count) / 1e3;
}

const std::string kPool = "cpp-pool";
const std::string kApply = "cpp-pool-apply";
const Contender all[] = {
    {kPool, "forklift", Role::kOurs, "ns", mapped},
    {kPool, "two channels", Role::kFloor, "ns", nothing_but_channels},
    {kApply, "forklift", Role::kOurs, "us", applied_us},
    {kApply, "two channels", Role::kFloor, "us", called_us},
};

}  // namespace
}  // namespace bench
