// The storm: producers and consumers on several channels are killed at random and replaced, and an account
// that is kept outside shared memory must add up.
//
// FORKLIFT_STORM_SECONDS (20) and FORKLIFT_STORM_SEED choose length and dice. The dice decide who is killed
// and when; what the machine makes of it differs from run to run.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>

#include "ledger.h"
#include "onlooker.h"
#include "os/clock.h"
#include "storm.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

// Survivors make progress so soon after a kill.
constexpr std::int64_t kProgressNs = 2 * kSecond * kSlower;

struct Traffic {
  const char* name;
  ChannelOptions options;
  std::vector<Shape> shapes;  // a message's number decides which
  std::size_t most_there;     // producers of unbounded channels pause beyond it

  const Shape& shape_of(std::uint64_t number) const { return shapes[number % shapes.size()]; }
};

const std::vector<Traffic>& traffic() {
  static const std::vector<Traffic> all = {
      {"inline", {}, {{.bytes = 16}, {.bytes = 40}, {.bytes = 600}, {.bytes = 8000}}, 500},
      {"bounded, leases",
       {.capacity = 8},
       {{.bytes = 64, .blocks = {64}},
        {.bytes = 64, .blocks = {5000, 64}},
        {.bytes = 100, .blocks = {70'000}}},
       100},
      {"bounded in bytes",
       {.byte_capacity = 60'000},
       {{.bytes = 16}, {.bytes = 3000}, {.bytes = 7000}, {.bytes = 20'000}},
       100},
      {"spilled, private",
       {},
       {{.bytes = 64, .blocks = {20'000}, .kind = Kind::kPrivate},
        {.bytes = 9000, .blocks = {300}},
        {.bytes = 64, .blocks = {64, 64, 64}},
        {.bytes = 12'000, .blocks = {4096, 300'000}}},
       50},
      {"two places", {.capacity = 2}, {{.bytes = 16}}, 100},
  };
  return all;
}

enum class Phase : int {
  kRun,
  kProducersStop,
  kConsumersStop
};

// A page that all workers share, of our own making.
class PhaseFlag {
 public:
  PhaseFlag()
      : flag_(static_cast<std::atomic<Phase>*>(
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~PhaseFlag() { munmap(flag_, 4096); }
  PhaseFlag(const PhaseFlag&) = delete;
  PhaseFlag& operator=(const PhaseFlag&) = delete;
  void set(Phase phase) { flag_->store(phase); }
  Phase get() const { return flag_->load(); }

 private:
  std::atomic<Phase>* flag_;
};

struct Worker {
  pid_t pid = 0;
  std::uint32_t channel = 0;
  bool produces = false;
};

class Storm : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);  // a killed producer's children come to us
    node_ = must(Node::create());
    for (const Traffic& one : traffic())
      channels_.push_back(must(channel::Channel::create(node_->channels(), one.options)));
  }

  void start(Worker& worker) {
    const std::uint64_t number = ++workers_;
    worker.pid = fork();
    ASSERT_GE(worker.pid, 0);
    if (worker.pid != 0) return;
    worker.produces ? produce(worker.channel, number) : consume(worker.channel, number);
    _exit(0);
  }

  void send(std::uint32_t channel, std::uint64_t worker, std::uint64_t message) {
    ledger_.write(Event::kAbout, channel, worker, message);
    const Status put = Message(*node_, traffic()[channel].shape_of(message), message)
                           .put(*channels_[channel], os::Deadline::after_ns(kSecond / 3));
    if (!put && put.code() != Code::kTimeout) std::fprintf(stderr, "put: %s\n", put.to_string().c_str());
    ledger_.write(put                            ? Event::kPut
                  : put.code() == Code::kTimeout ? Event::kRefused
                                                 : Event::kError,
                  channel, worker, message);
  }

  void produce(std::uint32_t channel, std::uint64_t worker) {
    for (std::uint64_t count = 1; phase_.get() == Phase::kRun; ++count) {
      const std::uint64_t message = message_number(worker, count);
      if (count % 64 == 0) {
        // A child of its own puts this one, and outlives its parent when that is killed.
        const pid_t pid = fork();
        if (pid == 0) {
          send(channel, worker, message);
          _exit(0);
        }
        waitpid(pid, nullptr, 0);
      } else {
        send(channel, worker, message);
      }
      if (count % 16 == 0) usleep(2000);
      while (channels_[channel]->size() > traffic()[channel].most_there && phase_.get() == Phase::kRun)
        usleep(1000);
    }
  }

  void consume(std::uint32_t channel, std::uint64_t worker) {
    std::array<Incoming, 4> kept;  // some leases are always held when death comes
    for (std::size_t turn = 0; phase_.get() != Phase::kConsumersStop; ++turn) {
      Incoming& message = kept[turn % kept.size()];
      const Status got = channels_[channel]->get(message, os::Deadline::after_ns(kSecond / 10));
      if (got.code() == Code::kTimeout) continue;
      if (!got) {
        std::fprintf(stderr, "get: %s\n", got.to_string().c_str());
        ledger_.write(Event::kError, channel, worker, 0);
        continue;
      }
      for (const LeasePtr& lease : message.leases()) must(lease->arena().privatise(*lease));
      std::uint64_t number = 0;
      if (message.bytes().size() >= sizeof number)
        std::memcpy(&number, message.bytes().data(), sizeof number);
      Findings found;
      read_message(message, traffic()[channel].shape_of(number), found);
      for (const std::string& line : found.lines()) std::fprintf(stderr, "got: %s\n", line.c_str());
      ledger_.write(found.empty() ? Event::kGot : Event::kBad, channel, worker, number);
    }
  }

  // Enters what was logged; fails when a channel stands still.
  void watch() {
    account_.enter(ledger_.read_new());
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::int64_t now = os::now_ns();
    for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) {
      if (account_.received(channel) != last_received_[channel]) {
        last_received_[channel] = account_.received(channel);
        last_progress_[channel] = now;
      }
      slowest_ = std::max(slowest_, now - last_progress_[channel]);
      EXPECT_LT(now - last_progress_[channel], kProgressNs)
          << "channel " << channel << " (" << traffic()[channel].name << ") stands still with "
          << channels_[channel]->size() << " messages";
    }
  }

  bool wait_for(const std::vector<Worker>& workers, bool producers) {
    const std::int64_t limit = os::now_ns() + 10 * kSecond * kSlower;
    for (const Worker& worker : workers) {
      if (worker.produces != producers) continue;
      while (waitpid(worker.pid, nullptr, WNOHANG) == 0) {
        if (os::now_ns() > limit) return false;
        account_.enter(ledger_.read_new());
        usleep(1000);
      }
    }
    return true;
  }

  Onlooker onlooker_;
  std::unique_ptr<Node> node_;
  std::vector<ChannelPtr> channels_;
  Ledger ledger_;
  Account account_;
  PhaseFlag phase_;
  std::uint64_t workers_ = 0;
  std::array<std::uint64_t, Account::kMostChannels> last_received_{};
  std::array<std::int64_t, Account::kMostChannels> last_progress_{};
  std::int64_t slowest_ = 0;
};

TEST_F(Storm, NothingIsLostOrDoubled) {
  const long seconds = storm_seconds();
  const std::uint64_t seed = storm_seed(20260101);
  set_test_timeout(std::chrono::seconds(seconds + 60 * kSlower));
  std::mt19937_64 dice(seed);

  std::vector<Worker> workers;
  for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) {
    for (const bool produces : {true, true, false, false}) workers.push_back({0, channel, produces});
  }
  for (Worker& worker : workers) start(worker);
  last_progress_.fill(os::now_ns());
  onlooker_.begin();

  std::uint64_t kills = 0;
  const std::int64_t end = os::now_ns() + seconds * kSecond;
  while (os::now_ns() < end && !HasFailure()) {
    usleep(static_cast<useconds_t>(500 + dice() % 12'000));
    Worker& victim = workers[dice() % workers.size()];
    kill_and_bury(victim.pid);
    ++kills;
    if (!victim.produces) account_.consumer_killed(victim.channel);
    start(victim);
    watch();
  }

  phase_.set(Phase::kProducersStop);
  EXPECT_TRUE(wait_for(workers, true)) << "a producer does not end";
  const std::int64_t spin_policy = os::now_ns() + 10 * kSecond * kSlower;
  const auto all_empty = [&] {
    return std::all_of(channels_.begin(), channels_.end(),
                       [](const ChannelPtr& one) { return one->empty(); });
  };
  // Orphans of killed producers may still be sending: they are gone when only the consumers are left.
  while ((!all_empty() || node_->domain().live_slots() > 1 + workers.size() / 2) &&
         os::now_ns() < spin_policy) {
    watch();
    last_progress_.fill(os::now_ns());
    node_->domain().reap();
    usleep(1000);
  }
  EXPECT_TRUE(all_empty()) << "messages stay behind";
  phase_.set(Phase::kConsumersStop);
  EXPECT_TRUE(wait_for(workers, false)) << "a consumer does not end";
  onlooker_.end();
  if (HasFailure()) {
    for (const Worker& worker : workers) ::kill(worker.pid, SIGKILL);
  }
  while (waitpid(-1, nullptr, 0) > 0) {
  }

  account_.enter(ledger_.read_new());
  for (const std::string& wrong : account_.close()) ADD_FAILURE() << wrong;
  node_->domain().reap();
  for (const std::string& wrong : node_->audit()) ADD_FAILURE() << "audit: " << wrong;
  EXPECT_EQ(node_->domain().live_slots(), 1U);
  channels_.clear();
  const arena::Stats stats = node_->arena().stats();
  EXPECT_EQ(stats.leases, 0U);
  EXPECT_EQ(stats.held_blocks, 0U);
  EXPECT_EQ(node_->channels().live(), 0U);
  for (const std::string& wrong : node_->audit()) ADD_FAILURE() << "audit at the end: " << wrong;

  std::printf("  seed %llu: %llu kills, %llu processes in %ld s; longest standstill of a channel %lld ms\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(workers_), seconds,
              static_cast<long long>(slowest_ / 1'000'000));
  for (std::uint32_t channel = 0; channel < traffic().size(); ++channel) {
    std::printf("  %-20s %9llu sent, %9llu received\n", traffic()[channel].name,
                static_cast<unsigned long long>(account_.sent(channel)),
                static_cast<unsigned long long>(account_.received(channel)));
    EXPECT_GT(account_.received(channel), 0U);
  }
}

}  // namespace
}  // namespace forklift::test
