// The storm over services: clients and servers are killed at random. Each call of a survivor ends once, with its own
// answer, with ServerDied or by its time; no request is served twice; nothing of the dead stays.
//
// FORKLIFT_STORM_SECONDS (20, of which this takes a quarter) and FORKLIFT_STORM_SEED choose length and dice. What
// happened to each call is noted in memory of the kernel's, not in the domain's.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "forklift/service.h"
#include "node/node.h"
#include "storm.h"
#include "support/child.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

constexpr std::size_t kClients = 3, kServers = 3;  // and one more server, which is not killed
constexpr std::size_t kMostCalls = 1 << 27;

struct Question {
  std::uint64_t number;
  std::array<std::uint64_t, 20> ballast;
};
using Squares = Service<Question, std::vector<std::uint64_t>>;

struct Log {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> answered{0}, died{0}, timed_out{0}, wrong{0}, failed{0};
  std::atomic<bool> stop{false};
  std::array<std::atomic<std::uint8_t>, kMostCalls> served{};
};

class SharedLog {
 public:
  SharedLog()
      : log_(::mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    new (log_) Log;
  }
  ~SharedLog() { ::munmap(log_, sizeof(Log)); }
  SharedLog(const SharedLog&) = delete;
  SharedLog& operator=(const SharedLog&) = delete;
  Log* operator->() const { return static_cast<Log*>(log_); }

 private:
  void* log_;
};

// Small answers and ones that lie in a block.
std::vector<std::uint64_t> answer_to(std::uint64_t number) {
  return std::vector<std::uint64_t>(number % 50 == 0 ? 5000 : 3, number * number);
}

void ask(const Domain& domain, const SharedLog& log, unsigned seed) {
  std::mt19937 dice(seed);
  auto client = Squares::connect(domain, "squares", std::chrono::seconds(60));
  while (!log->stop) {
    const std::uint64_t number = log->next++;
    if (number >= kMostCalls) break;
    try {
      const bool hurry = dice() % 8 == 0;
      const Wait wait = hurry ? Wait(std::chrono::microseconds(dice() % 200)) : Wait::forever();
      const auto answer = client.try_call({number, {}}, wait);
      if (answer && *answer != answer_to(number)) log->wrong++;
      (answer ? log->answered : log->timed_out)++;
    } catch (const ServerDied&) {
      log->died++;
    } catch (const Error& error) {
      std::fprintf(stderr, "a call failed: %s\n", error.what());
      log->failed++;
    }
  }
}

void serve(const Domain& domain, const SharedLog& log) {
  auto server = Squares::serve(domain, "squares");
  while (!log->stop) {
    if (auto call = server.try_next(std::chrono::milliseconds(100))) {
      if (log->served[call->request().number]++ != 0) log->wrong++;
      if (call->request().number % 16 == 0) ::usleep(200);  // so that deaths fall into it
      (void)call->respond(answer_to(call->request().number));
    }
  }
}

pid_t start(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  body();
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(ServiceStorm, ClientsAndServersDieAtAnyMoment) {
  set_test_timeout(std::chrono::seconds(140 * kSlower));
  const Domain domain = Domain::own();
  node::Node& node = *node::Node::existing();
  (void)Queue<int>();
  const std::uint64_t blocks = node.arena().stats().held_blocks;
  const std::uint64_t channels = node.channels().live();
  const SharedLog log;
  std::mt19937 dice(static_cast<std::mt19937::result_type>(storm_seed(11)));
  const pid_t steady = start([&] { serve(domain, log); });
  unsigned started = 0;
  std::uint64_t servers_killed = 0;
  const auto start_one = [&](unsigned index) {
    ++started;
    if (index >= kClients) return start([&] { serve(domain, log); });
    return start([&, seed = started] { ask(domain, log, seed); });
  };
  std::array<pid_t, kClients + kServers> workers{};
  for (unsigned i = 0; i < workers.size(); ++i) workers[i] = start_one(i);
  Progress answers(log->answered, 30 * kSecond * kSlower, "nothing is answered");
  const auto count_and_start = [&](unsigned index) {
    servers_killed += index >= kClients ? 1 : 0;
    return start_one(index);
  };
  const std::uint64_t kills = kill_at_random(workers, dice, storm_seconds() * kSecond / 4, 20'000,
                                             count_and_start, [&] { answers.look(); });
  log->stop = true;
  for (const pid_t pid : workers) expect_clean_end(pid);
  expect_clean_end(steady);

  std::printf("%lu kills: %lu calls were answered, %lu timed out, %lu lost their server\n",
              static_cast<unsigned long>(kills), static_cast<unsigned long>(log->answered),
              static_cast<unsigned long>(log->timed_out), static_cast<unsigned long>(log->died));
  EXPECT_EQ(log->wrong, 0U) << "a wrong answer, or a request that was served twice";
  EXPECT_EQ(log->failed, 0U);
  EXPECT_GT(log->answered, 100U);
  EXPECT_LE(log->died, servers_killed) << "a server has one call at a time";
  // The channel of requests goes with its name, and with it what it holds.
  EXPECT_TRUE(Domain(domain).unpublish("squares"));
  EXPECT_TRUE(eventually(
      [&] {
        node.domain().reap();
        return node.arena().stats().held_blocks == blocks && node.calls().live() == 0 &&
               node.channels().live() == channels;
      },
      30'000));
  EXPECT_EQ(node.audit(), std::vector<std::string>());
}

}  // namespace
}  // namespace forklift::test
