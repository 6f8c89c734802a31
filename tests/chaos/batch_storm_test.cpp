// The storm over batches: processes that put and take 1 to 200 messages in a call, beside single ones, are killed at
// random, and what they say about each message, in memory outside the domain, must add up: a message that a call was
// through with is taken once, a killed getter takes at most its call's messages along, each producer's messages come in
// its order and each byte as it was, and nothing is left.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "channel/batch.h"
#include "storm.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

constexpr std::size_t kQueues = 4;
constexpr std::size_t kWorkers = 4 * kQueues;     // of each queue two producers and two consumers
constexpr std::size_t kMostMessages = 8'000'000;  // of one queue; the pages of most are never touched
constexpr std::size_t kMostInCall = 200;
constexpr std::int64_t kProgressNs = 5 * kSecond * kSlower;
const os::Deadline kNow = os::Deadline::after_ns(0);

// What is known about a message; a byte of flags.
enum Said : std::uint8_t {
  kAbout = 1,  // a put of it is about to begin
  kFirst = 2,  // it is its call's first
  kPut = 4,    // the call returned
  kGot = 8
};

struct Log {
  std::atomic<std::uint8_t> said[kQueues][kMostMessages];
  std::uint16_t producer[kQueues][kMostMessages];  // which one was about to put it
  std::atomic<std::uint64_t> next[kQueues];        // number of a message
  std::atomic<std::uint64_t> taken[kQueues];
  std::atomic<std::uint64_t>
      calling[kWorkers];  // a consumer is taking at most so many, or has not yet said which
  std::atomic<std::uint64_t> damaged, disorder, failed, twice;
  std::atomic<bool> stop;
};

struct Traffic {
  const char* name;
  ChannelOptions options;
  std::vector<Shape> shapes;  // of 16 messages in a row the same

  const Shape& shape_of(std::uint64_t number) const { return shapes[number / 16 % shapes.size()]; }
};

const std::vector<Traffic>& traffic() {
  static const std::vector<Traffic> all = {
      {"unbounded", {}, {{.bytes = 16}, {.bytes = 24}, {.bytes = 600}}},
      {"bounded", {.capacity = 20}, {{.bytes = 16}, {.bytes = 40}}},
      {"bounded in bytes", {.byte_capacity = 3000}, {{.bytes = 16}, {.bytes = 200}, {.bytes = 17}}},
      {"plain and laden",
       {},
       {{.bytes = 16}, {.bytes = 64, .blocks = {5000}}, {.bytes = 32}, {.bytes = 9000}}},
  };
  return all;
}

// What one process puts and takes.
class Caller {
 public:
  Caller(Log& log, Node& node, channel::Channel& channel, std::size_t queue, std::uint64_t lot)
      : log_(log), node_(node), channel_(channel), queue_(queue), lot_(lot), dice_(lot) {}

  void produce() {
    while (!log_.stop) {
      put(dice_() % 2 == 0 ? 1 : 1 + dice_() % kMostInCall);
      while (channel_.size() > 1000 && !log_.stop) usleep(500);
    }
  }

  // Until the queue is closed and empty.
  void consume(std::size_t worker) {
    for (;;) {
      const std::uint64_t call = dice_() % 4;
      const bool single = call == 0;
      // As Python's drain(): what was there when it began, without a wait.
      std::size_t left = call == 3 ? channel_.size() : 0;
      do {
        const std::size_t most = single ? 1 : 1 + dice_() % kMostInCall;
        log_.calling[worker] = most;
        const Status got = take(most, single, call == 3 ? kNow : os::Deadline::after_seconds(300));
        log_.calling[worker] = 0;
        if (got.code() == Code::kClosed) return;
        if (got.code() == Code::kTimeout && call == 3) break;
        if (!got) return fail("get", got);
        left -= std::min(left, count_);
      } while (left != 0);
    }
  }

 private:
  void fail(const char* what, const Status& status) {
    std::fprintf(stderr, "%s: %s\n", what, status.to_string().c_str());
    ++log_.failed;
  }

  void put(std::size_t count) {
    const std::uint64_t first = log_.next[queue_].fetch_add(count);
    if (first + count > kMostMessages) {
      usleep(1000);
      return;
    }
    std::vector<std::unique_ptr<Message>> messages;
    std::vector<channel::Outgoing> outgoing;
    for (std::uint64_t number = first; number < first + count; ++number) {
      log_.producer[queue_][number] = static_cast<std::uint16_t>(lot_);
      log_.said[queue_][number].fetch_or(kAbout);
      if (number == first) log_.said[queue_][number].fetch_or(kFirst);
      messages.push_back(std::make_unique<Message>(node_, traffic()[queue_].shape_of(number), number));
      outgoing.push_back(messages.back()->outgoing());
    }
    std::size_t done = 0;
    const os::Deadline deadline = os::Deadline::after_seconds(300);
    const Status status = count == 1 && dice_() % 2 == 0 ? channel_.put(outgoing[0], deadline)
                                                         : channel_.put_many(outgoing, done, deadline);
    if (!status) return fail("put", status);
    for (std::uint64_t number = first; number < first + count; ++number)
      log_.said[queue_][number].fetch_or(kPut);
  }

  Status take(std::size_t most, bool single, os::Deadline deadline) {
    count_ = 0;
    Status got =
        single ? channel_.get(message_, deadline) : channel_.get_many(batch_, message_, most, deadline);
    if (!got) return got;
    if (single || batch_.empty()) {
      note(message_);
    } else {
      if (batch_.size() > most) ++log_.failed;
      for (std::size_t i = 0; i < batch_.size(); ++i) {
        batch_.show(i, message_);
        note(message_);
      }
    }
    message_.clear();
    return got;
  }

  void note(Incoming& message) {
    ++count_;
    std::uint64_t number = 0;
    if (message.bytes().size() >= sizeof number) std::memcpy(&number, message.bytes().data(), sizeof number);
    if (number >= kMostMessages) {
      ++log_.damaged;
      return;
    }
    Findings found;
    read_message(message, traffic()[queue_].shape_of(number), found);
    for (const std::string& line : found.lines()) std::fprintf(stderr, "got: %s\n", line.c_str());
    if (!found.empty()) ++log_.damaged;
    const std::uint8_t before = log_.said[queue_][number].fetch_or(kGot);
    if ((before & kGot) != 0) ++log_.twice;
    std::uint64_t& last = last_[log_.producer[queue_][number]];
    if (number + 1 <= last) ++log_.disorder;
    last = number + 1;
    ++log_.taken[queue_];
  }

  Log& log_;
  Node& node_;
  channel::Channel& channel_;
  std::size_t queue_;
  std::uint64_t lot_;
  std::mt19937_64 dice_;
  channel::Batch batch_;
  Incoming message_;
  std::size_t count_ = 0;                                  // that the last call took
  std::unordered_map<std::uint16_t, std::uint64_t> last_;  // of each producer, + 1
};

class BatchStorm : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    void* memory = mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    log_ = static_cast<Log*>(memory);
    node_ = must(Node::create());
    before_ = node_->arena().stats();
    for (std::size_t i = 0; i < kQueues; ++i)
      queues_[i] = must(channel::Channel::create(node_->channels(), traffic()[i].options));
  }
  void TearDown() override { munmap(log_, sizeof(Log)); }

  static std::size_t queue_of(unsigned worker) { return worker % kQueues; }
  static bool produces(unsigned worker) { return worker < kWorkers / 2; }

  pid_t start(unsigned worker) {
    const std::uint64_t lot = ++started_;
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const std::size_t queue = queue_of(worker);
    Caller caller(*log_, *node_, *queues_[queue], queue, lot);
    produces(worker) ? caller.produce() : caller.consume(worker);
    _exit(0);
  }

  // What the consumers that were killed may have taken along.
  void note_kill(unsigned worker) {
    if (!produces(worker)) may_be_gone_[queue_of(worker)] += log_->calling[worker].exchange(0);
  }

  // Those of which a call said that they are put, and those that others of their call have overtaken, were taken, but for
  // what the killed getters took along.
  void check_account(std::size_t queue) {
    const std::uint64_t end = std::min<std::uint64_t>(log_->next[queue], kMostMessages);
    std::uint64_t put = 0;
    std::uint64_t lost = 0;
    std::uint64_t waiting = 0;  // of this call, not taken so far
    for (std::uint64_t number = 0; number < end; ++number) {
      const std::uint8_t said = log_->said[queue][number];
      if ((said & kFirst) != 0) waiting = 0;
      if ((said & kPut) != 0) {
        ++put;
        lost += (said & kGot) == 0 ? 1 : 0;
      } else if ((said & kGot) != 0) {
        lost += waiting;
        waiting = 0;
      } else {
        ++waiting;
      }
    }
    EXPECT_LE(lost, may_be_gone_[queue]) << "messages are lost from the queue " << traffic()[queue].name;
    EXPECT_GT(log_->taken[queue].load(), 0U);
    std::printf("  %-20s %9llu put, %9llu taken, %llu gone with their getters (at most %llu)\n",
                traffic()[queue].name, static_cast<unsigned long long>(put),
                static_cast<unsigned long long>(log_->taken[queue].load()),
                static_cast<unsigned long long>(lost), static_cast<unsigned long long>(may_be_gone_[queue]));
  }

  Log* log_ = nullptr;
  std::unique_ptr<Node> node_;
  arena::Stats before_{};
  std::array<ChannelPtr, kQueues> queues_;
  std::array<std::uint64_t, kQueues> may_be_gone_{};
  std::uint64_t started_ = 0;
};

TEST_F(BatchStorm, NothingThatPutManyReturnedForIsLostOrDoubled) {
  const long seconds = storm_seconds();
  set_test_timeout(std::chrono::seconds(seconds + 60 * kSlower));
  const std::uint64_t seed = storm_seed(20261126);
  std::mt19937 dice(static_cast<unsigned>(seed));
  std::array<pid_t, kWorkers> workers{};
  for (unsigned i = 0; i < kWorkers; ++i) workers[i] = start(i);
  std::vector<Progress> progress;
  for (std::size_t i = 0; i < kQueues; ++i)
    progress.emplace_back(log_->taken[i], kProgressNs, traffic()[i].name);
  const std::uint64_t kills = kill_at_random(
      workers, dice, seconds * kSecond / 5, 6000,
      [&](unsigned worker) {
        note_kill(worker);
        return start(worker);
      },
      [&] {
        for (std::size_t i = 0; i < kQueues; ++i)
          if (log_->next[i] < kMostMessages) progress[i].look();
      });
  log_->stop = true;
  for (unsigned i = 0; i < kWorkers / 2; ++i) expect_clean_end(workers[i]);
  for (const ChannelPtr& queue : queues_) EXPECT_TRUE(queue->close().ok());
  for (unsigned i = kWorkers / 2; i < kWorkers; ++i) expect_clean_end(workers[i]);
  node_->domain().reap();

  EXPECT_GT(kills, 0U);
  EXPECT_EQ(log_->twice.load(), 0U) << "messages were taken twice";
  EXPECT_EQ(log_->damaged.load(), 0U);
  EXPECT_EQ(log_->disorder.load(), 0U) << "messages of one producer came in another order";
  EXPECT_EQ(log_->failed.load(), 0U);
  std::printf("  seed %llu: %llu kills\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(kills));
  for (std::size_t i = 0; i < kQueues; ++i) {
    check_account(i);
    EXPECT_TRUE(queues_[i]->at_end());
  }
  for (const std::string& line : node_->audit()) ADD_FAILURE() << "audit: " << line;
  for (ChannelPtr& queue : queues_) queue.reset();
  EXPECT_EQ(node_->domain().live_slots(), 1U);
  EXPECT_EQ(node_->arena().stats().leases, before_.leases);
  EXPECT_EQ(node_->arena().stats().held_blocks, before_.held_blocks);
  EXPECT_EQ(node_->channels().live(), 0U);
  for (const std::string& line : node_->audit()) ADD_FAILURE() << "audit at the end: " << line;
}

}  // namespace
}  // namespace forklift::test
