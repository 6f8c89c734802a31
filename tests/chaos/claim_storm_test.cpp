// The storm over queues that deliver at least once: consumers that claim, acknowledge and give back are killed at
// random, and what they say about each message, in memory outside the domain, must add up: each message is acknowledged
// or has become a dead letter, none is delivered after its acknowledgement returned, and nothing is left.
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

#include "storm.h"
#include "support/numbered_message.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

using channel::Receipt;

constexpr std::size_t kQueues = 3;
constexpr std::size_t kConsumers = 6;           // two for each queue
constexpr std::size_t kMostMessages = 400'000;  // of one queue
constexpr std::uint32_t kTries = 4;             // of the last queue, which has dead letters

// What is known about a message; a byte of flags.
enum Said : std::uint8_t {
  kPut = 1,
  kAboutToEnd = 2,    // an acknowledgement is about to begin
  kAcknowledged = 4,  // it returned
  kDelivered = 8,
  kDeadLetter = 16
};

struct Log {
  std::atomic<std::uint8_t> said[kQueues][kMostMessages];
  std::atomic<std::uint64_t> acknowledged;  // in all
  std::atomic<std::uint64_t> came_back;
  std::atomic<std::uint64_t> too_late;  // delivered although its acknowledgement had returned
  std::atomic<std::uint64_t> damaged;
  std::atomic<std::uint64_t> failed;  // calls
  std::atomic<bool> stop;
};

const Shape& shape_of(std::uint64_t number) {
  static const std::array<Shape, 5> shapes = {
      Shape{.bytes = 16}, Shape{.bytes = 200}, Shape{.bytes = 64, .blocks = {5000}},
      Shape{.bytes = 2000, .blocks = {64, 70'000}}, Shape{.bytes = 9000}};
  return shapes[number % shapes.size()];
}

// Of the last queue: never acknowledged, so that it becomes a dead letter.
bool is_poison(std::size_t queue, std::uint64_t number) { return queue == kQueues - 1 && number % 64 == 1; }

class ClaimStorm : public testing::Test {
 protected:
  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    void* memory = mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    log_ = static_cast<Log*>(memory);
    node_ = must(Node::create());
    before_ = node_->arena().stats();
    letters_ = must(channel::Channel::create(node_->channels(), {}));
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      ChannelOptions options{.capacity = i == 1 ? 16U : 0U, .receipts = 32};
      if (i == kQueues - 1) {
        options.tries = kTries;
        options.dead_letters = letters_;
      }
      queues_[i] = must(channel::Channel::create(node_->channels(), options));
    }
  }
  void TearDown() override { munmap(log_, sizeof(Log)); }

  void say(std::size_t queue, std::uint64_t number, Said what) { log_->said[queue][number].fetch_or(what); }

  static std::uint32_t tries_limit(std::size_t queue) { return queue == kQueues - 1 ? kTries : 0; }

  // Until the queue is closed and all is acknowledged.
  void consume(std::size_t queue, std::uint64_t seed) {
    std::mt19937_64 dice(seed);
    channel::Channel& from = *queues_[queue];
    for (;;) {
      Incoming message;
      Receipt receipt;
      const Status got = from.claim(message, receipt, os::Deadline::after_seconds(300));
      if (got.code() == Code::kClosed) return;
      if (!got) {
        std::fprintf(stderr, "claim: %s\n", got.to_string().c_str());
        ++log_->failed;
        return;
      }
      Findings found;
      const std::uint64_t number = number_of(message, found);
      if (!found.empty() || number >= kMostMessages) {
        ++log_->damaged;
        return;
      }
      if ((log_->said[queue][number].load() & kAcknowledged) != 0) ++log_->too_late;
      if (tries_limit(queue) != 0 && receipt.tries() > tries_limit(queue)) ++log_->failed;
      if (receipt.tries() > 1) ++log_->came_back;
      say(queue, number, kDelivered);
      if (is_poison(queue, number) || dice() % 16 == 0) {
        if (!from.give_back(receipt)) ++log_->failed;
        continue;
      }
      say(queue, number, kAboutToEnd);
      if (!from.acknowledge(receipt)) ++log_->failed;
      say(queue, number, kAcknowledged);
      ++log_->acknowledged;
    }
  }
  // Each byte of the message is what its number says.
  static std::uint64_t number_of(Incoming& message, Findings& found) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.bytes().data(), sizeof number);
    return read_message(message, shape_of(number), found) == number ? number : kMostMessages;
  }

  void produce(std::size_t queue) {
    for (std::uint64_t number = 0; number < kMostMessages && !log_->stop; ++number) {
      if (!Message(*node_, shape_of(number), number).put(*queues_[queue], os::Deadline::after_seconds(300)))
        ++log_->failed;
      say(queue, number, kPut);
      while (queues_[queue]->size() > 200 && !log_->stop) usleep(500);
    }
  }

  template <class Body>
  pid_t start(Body&& body) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    body();
    _exit(0);
  }

  void check_account() {
    std::uint64_t put = 0;
    std::uint64_t letters = 0;
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
      for (std::uint64_t number = 0; number < kMostMessages; ++number) {
        const std::uint8_t said = log_->said[queue][number];
        if ((said & kPut) == 0) continue;
        ++put;
        letters += (said & kDeadLetter) != 0 ? 1 : 0;
        if (is_poison(queue, number)) {
          EXPECT_NE(said & kDeadLetter, 0)
              << "message " << number << " failed each time, and is no dead letter";
        }
        EXPECT_NE(said & (kAboutToEnd | kAcknowledged | kDeadLetter), 0)
            << "message " << number << " of queue " << queue << " is lost; it was "
            << ((said & kDelivered) != 0 ? "delivered" : "never delivered");
        if (HasFailure()) return;
      }
    }
    std::printf(
        "%llu messages, %llu acknowledged, %llu came back, %llu dead letters\n",
        static_cast<unsigned long long>(put), static_cast<unsigned long long>(log_->acknowledged.load()),
        static_cast<unsigned long long>(log_->came_back.load()), static_cast<unsigned long long>(letters));
    EXPECT_GT(log_->came_back.load(), 0U);
    EXPECT_GT(letters, 0U);
  }

  Log* log_ = nullptr;
  std::unique_ptr<Node> node_;
  arena::Stats before_{};
  ChannelPtr letters_;
  std::array<ChannelPtr, kQueues> queues_;
};

TEST_F(ClaimStorm, ConsumersDie) {
  const std::uint64_t seed = storm_seed(20261124);
  std::mt19937 dice(static_cast<unsigned>(seed));
  std::array<pid_t, kConsumers> consumers{};
  std::array<pid_t, kQueues> producers{};
  std::uint64_t started = 0;
  const auto start_consumer = [&](unsigned i) {
    const std::uint64_t lot = seed + ++started;
    return start([this, i, lot] { consume(i % kQueues, lot); });
  };
  for (unsigned i = 0; i < kConsumers; ++i) consumers[i] = start_consumer(i);
  for (std::size_t i = 0; i < kQueues; ++i) producers[i] = start([this, i] { produce(i); });
  Progress progress(log_->acknowledged, 10 * kSecond * kSlower, "nobody acknowledges");
  const std::int64_t length = storm_seconds() * kSecond / 2;
  const std::uint64_t kills =
      kill_at_random(consumers, dice, length, 6000, start_consumer, [&] { progress.look(); });
  log_->stop = true;
  for (const pid_t pid : producers) expect_clean_end(pid);
  for (const ChannelPtr& queue : queues_) EXPECT_TRUE(queue->close().ok());
  for (const pid_t pid : consumers) expect_clean_end(pid);
  node_->domain().reap();

  EXPECT_EQ(log_->too_late.load(), 0U) << "messages were delivered after their acknowledgement had returned";
  EXPECT_EQ(log_->damaged.load(), 0U);
  EXPECT_EQ(log_->failed.load(), 0U);
  for (const ChannelPtr& queue : queues_) {
    EXPECT_TRUE(queue->at_end());
    EXPECT_EQ(queue->unacknowledged(), 0U);
    EXPECT_EQ(queue->dropped(), 0U);
  }
  for (Incoming letter; letters_->get(letter, os::Deadline::after_ns(0)).ok();) {
    Findings found;
    const std::uint64_t number = number_of(letter, found);
    EXPECT_TRUE(found.empty());
    if (number < kMostMessages) say(kQueues - 1, number, kDeadLetter);
  }
  std::printf("%llu kills; ", static_cast<unsigned long long>(kills));
  check_account();
  EXPECT_GT(kills, 0U);
  for (ChannelPtr& queue : queues_) queue.reset();
  letters_.reset();
  EXPECT_EQ(node_->domain().live_slots(), 1U);
  EXPECT_EQ(node_->arena().stats().leases, before_.leases);
  EXPECT_EQ(node_->arena().stats().held_blocks, before_.held_blocks);
  for (const std::string& line : node_->audit()) ADD_FAILURE() << line;
}

}  // namespace
}  // namespace forklift::test
