// Loans: messages that are written and read where they lie; who holds them, and when they go back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "support/child.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using test::Child;
using test::eventually;
using testing::IsEmpty;

struct Frame {
  std::uint64_t number;
  std::array<std::uint8_t, 100'000> pixels;
};
struct Small {
  std::uint64_t number;
};
struct alignas(256) Aligned {
  float values[3];
};
struct Header {
  double time;
  std::uint16_t lines;
};

class LoanTest : public testing::Test {
 protected:
  void SetUp() override {
    (void)Lock();
    blocks_ = held();
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return node().domain().reap(), held() == blocks_; }));
    EXPECT_THAT(node().audit(), IsEmpty());
  }
  static node::Node& node() { return *node::Node::existing(); }
  static std::uint64_t held() { return node().arena().stats().held_blocks; }
  std::uint64_t blocks_ = 0;
};

TEST_F(LoanTest, IsWrittenAndReadInPlace) {
  Queue<Frame> frames({.capacity = 2});
  auto frame = frames.loan();
  static_assert(std::same_as<decltype(frame), Loaned<Frame>>);
  frame->number = 7;
  frame->pixels.fill(9);
  const auto* written = frame.get();
  EXPECT_TRUE(frame);
  frame.publish();
  EXPECT_FALSE(frame);
  EXPECT_THROW((void)frame.get(), Error);
  EXPECT_THROW(frame.publish(), Error);
  auto seen = frames.get_loaned();
  static_assert(std::same_as<decltype(seen), Loaned<const Frame>>);
  EXPECT_EQ(seen.get(), written);  // the arena lies at the same address for all handles of a process
  EXPECT_EQ(seen->number, 7U);
  EXPECT_EQ(seen->pixels[99'999], 9);
  EXPECT_FALSE(frames.try_get_loaned().has_value());
  EXPECT_EQ(held(), blocks_ + 1);
  seen.reset();
  EXPECT_EQ(held(), blocks_);
}

TEST_F(LoanTest, PutsAndLoansMix) {
  Queue<Frame> frames;
  Queue<Small> small;
  Frame frame{.number = 1, .pixels = {}};
  frame.pixels[5] = 4;
  frames.put(frame);  // in a block of its own
  {
    const auto seen = frames.get_loaned();
    EXPECT_EQ(seen->pixels[5], 4);
  }
  auto lent = frames.loan();
  *lent = frame;
  lent.publish();
  EXPECT_EQ(frames.get().pixels[5], 4);
  small.put({3});  // within the message
  EXPECT_EQ(small.get_loaned()->number, 3U);
  auto number = small.loan();
  number->number = 8;
  number.publish();
  Small into{};
  small.get_into(into);
  EXPECT_EQ(into.number, 8U);
}

TEST_F(LoanTest, ALoopHoldsOneAtATime) {
  Queue<Frame> frames;
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto frame = frames.loan();
    frame->number = i;
    frame.publish();
  }
  frames.close();
  std::uint64_t seen = 0;
  for (const auto& frame : frames.each_loaned()) {
    EXPECT_EQ(frame->number, seen);
    ++seen;
    EXPECT_EQ(held(), blocks_ + 4 - seen);  // this one, and those that are still in the queue
  }
  EXPECT_EQ(seen, 3U);
  EXPECT_EQ(held(), blocks_);
}

TEST_F(LoanTest, LoopsOverReadersAndUntilAWaitIsOver) {
  Broadcast<std::vector<int>> parts;
  Latest<Small> newest;
  auto reader = parts.subscribe();
  parts.loan(3).publish();
  newest.put({5});
  std::size_t items = 0;
  for (const auto& part : reader.each_loaned(Wait::now())) items += part.size();
  EXPECT_EQ(items, 3U);
  std::uint64_t sum = 0;
  for (const auto& value : newest.each_loaned(Wait::now())) sum += value->number;
  EXPECT_EQ(sum, 5U);
  Queue<Small> empty;
  for ([[maybe_unused]] const auto& none : empty.each_loaned(Wait::now())) ADD_FAILURE();
  newest.reset();
}

TEST_F(LoanTest, SlicesAndHeaders) {
  Queue<std::vector<float>> parts;
  auto part = parts.loan(1000);
  EXPECT_EQ(part.size(), 1000U);
  std::iota(part.begin(), part.end(), 0.0F);
  part.publish();
  const auto seen = parts.get_loaned();
  static_assert(std::same_as<decltype(seen), const Loaned<const float[]>>);
  EXPECT_EQ(seen[999], 999.0F);
  parts.loan(0).publish();
  EXPECT_EQ(parts.get_loaned().size(), 0U);
  parts.put({1, 2, 3});
  EXPECT_EQ(parts.get_loaned().items().size(), 3U);
  auto again = parts.loan(2);
  again[0] = 5;
  again[1] = 6;
  again.publish();
  EXPECT_EQ(parts.get(), (std::vector<float>{5, 6}));
  EXPECT_THROW((void)parts.loan(std::size_t{1} << 62), Error);

  Queue<Framed<Header, std::uint32_t>> scans;
  auto scan = scans.loan(360);
  scan->time = 1.5;
  scan.header().lines = 3;
  std::iota(scan.items().begin(), scan.items().end(), 0U);
  scan.publish();
  const auto read = scans.get_loaned();
  EXPECT_EQ(read->time, 1.5);
  EXPECT_EQ(read->lines, 3);
  EXPECT_EQ(read.items().size(), 360U);
  EXPECT_EQ(read.items()[359], 359U);
  using OtherScans = Queue<Framed<Header, std::uint16_t>>;
  EXPECT_THROW(OtherScans{ChannelRef(scans)}, TypeMismatch);
}

TEST_F(LoanTest, IsAligned) {
  Queue<Aligned> queue;
  std::vector<Loaned<Aligned>> loans;
  for (int i = 0; i < 5; ++i) {
    loans.push_back(queue.loan());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loans.back().get()) % 256, 0U);
  }
  queue.put({});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(queue.get_loaned().get()) % 256, 0U);
}

TEST_F(LoanTest, AFullQueueLeavesIt) {
  Queue<Small> queue({.capacity = 1});
  queue.put({1});
  auto loan = queue.loan();
  loan->number = 2;
  EXPECT_FALSE(loan.try_publish());
  EXPECT_FALSE(loan.try_publish(milliseconds(5)));
  EXPECT_EQ(loan->number, 2U);
  EXPECT_EQ(queue.get().number, 1U);
  EXPECT_TRUE(loan.try_publish());
  EXPECT_EQ(queue.get().number, 2U);
  auto late = queue.loan();
  queue.close();
  EXPECT_THROW(late.publish(), Closed);
  EXPECT_TRUE(late);
  EXPECT_THROW((void)queue.get_loaned(), Closed);
  queue.reset();
  EXPECT_THROW((void)queue.loan(), Error);
  EXPECT_THROW((void)queue.get_loaned(), Error);
}

TEST_F(LoanTest, AllReadersOfABroadcastSeeOneMemory) {
  Broadcast<Frame> frames;
  Latest<std::vector<int>> newest;
  auto first = frames.subscribe();
  auto second = frames.subscribe();
  auto frame = frames.loan();
  frame->number = 3;
  const Frame* written = frame.get();
  frame.publish();
  const auto here = first.get_loaned();
  const auto there = second.get_loaned();
  EXPECT_EQ(here.get(), written);
  EXPECT_EQ(there.get(), written);
  auto value = newest.loan(2);
  value[0] = value[1] = 4;
  value.publish();
  EXPECT_EQ(newest.get_loaned()[1], 4);
  EXPECT_EQ(newest.peek(), (std::vector<int>{4, 4}));
  EXPECT_FALSE(newest.try_get_loaned().has_value());
}

TEST_F(LoanTest, ReachesOtherProcesses) {
  Queue<Frame> frames({.capacity = 4});
  Child producer([&] {
    for (std::uint64_t i = 0; i < 200; ++i) {
      auto frame = frames.loan();
      frame->number = i;
      frame->pixels.fill(static_cast<std::uint8_t>(i));
      frame.publish();
    }
  });
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto frame = frames.get_loaned();
    ASSERT_EQ(frame->number, i);
    ASSERT_EQ(frame->pixels[77], static_cast<std::uint8_t>(i));
  }
  EXPECT_EQ(producer.wait(), 0);
}

TEST_F(LoanTest, AForkedChildReadsAndDoesNotPublish) {
  Queue<Frame> frames;
  auto frame = frames.loan();
  frame->number = 5;
  Child child([&] {
    EXPECT_EQ(frame->number, 5U);
    EXPECT_THROW(frame.publish(), Error);
    auto own = frames.loan();
    own->number = 6;
    own.publish();
  });
  EXPECT_EQ(child.wait(), 0);
  frame.publish();
  EXPECT_EQ(frames.get_loaned()->number, 6U);
  EXPECT_EQ(frames.get_loaned()->number, 5U);
}

TEST_F(LoanTest, ADeathGivesItBack) {
  Queue<Frame> frames;
  Child holder([&] {
    auto unpublished = frames.loan();
    auto published = frames.loan();
    published->number = 1;
    published.publish();
    auto lost = frames.loan();
    lost.publish();
    ::pause();
  });
  ASSERT_TRUE(eventually([&] { return frames.size() == 2; }));
  holder.kill_now();
  node().domain().reap();
  EXPECT_EQ(frames.get_loaned()->number, 1U);  // what was published stays
  (void)frames.get();
  Child reader([&] {
    auto frame = frames.loan();
    frame.publish();
    const auto seen = frames.get_loaned();
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(reader.wait(), -SIGKILL);
}

// Producers and consumers are killed at any moment: each frame that arrives is whole, and nothing stays behind.
TEST_F(LoanTest, AStorm) {
  Queue<Frame> frames({.capacity = 8});
  const auto produce = [&] {
    for (std::uint64_t i = 0;; ++i) {
      auto frame = frames.loan();
      frame->number = i;
      frame->pixels.fill(static_cast<std::uint8_t>(i));
      frame.publish();
    }
  };
  const auto consume = [&] {
    for (;;) {
      const auto frame = frames.get_loaned();
      const auto byte = static_cast<std::uint8_t>(frame->number);
      ASSERT_TRUE(
          std::all_of(frame->pixels.begin(), frame->pixels.end(), [&](auto pixel) { return pixel == byte; }));
    }
  };
  std::mt19937 random(3);
  std::vector<Child> children(4);
  for (int round = 0; round < 120; ++round) {
    const std::size_t victim = random() % children.size();
    if (children[victim].pid() > 0) children[victim].kill_now();
    children[victim] = victim % 2 == 0 ? Child(produce) : Child(consume);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
  }
  for (Child& child : children) {
    if (child.pid() <= 0) continue;
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), -SIGKILL);
  }
  node().domain().reap();
  while (frames.try_get_loaned().has_value()) {
  }
}

}  // namespace
}  // namespace forklift
