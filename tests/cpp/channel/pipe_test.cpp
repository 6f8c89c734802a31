// Pipes: messages, back-pressure, the end, tokens, passed descriptors.
#include "channel/pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "channel/waiting.h"
#include "os/socket.h"
#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using os::Deadline;
using test::bytes_of;
using test::Child;
using test::eventually;
using test::Gate;
using test::text_of;

constexpr std::int64_t kMs = 1'000'000;

class PipeTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    connect(true);
  }
  void TearDown() override {
    left = right = PipeEnd();
    pair_.reset();
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }
  void connect(bool duplex) {
    left = right = PipeEnd();
    pair_.reset();
    Result<PipePair> made = make_pipe(node().channels(), duplex);
    ASSERT_OK(made.status());
    pair_ = std::make_unique<PipePair>(*std::move(made));
    left = PipeEnd(pair_->first_fd.get(), pair_->second_to_first, pair_->first_to_second);
    right = PipeEnd(pair_->second_fd.get(), pair_->first_to_second, pair_->second_to_first);
  }
  static Status send(PipeEnd& end, const std::string& text, double seconds = 10) {
    return end.send({.bytes = bytes_of(text)}, Deadline::after_seconds(seconds));
  }
  static Result<std::string> receive(PipeEnd& end, double seconds = 10) {
    Incoming message;
    if (Status got = end.receive(message, Deadline::after_seconds(seconds)); !got) return got;
    return text_of(message);
  }
  static bool shows(const PipeEnd& end) { return os::wait_readable(end.fd(), 0).readable; }
  static std::size_t tokens(const PipeEnd& end) { return os::readable_bytes(end.fd()); }
  ChannelRow& row(const ChannelPtr& channel) { return node().channels().unchecked_row(channel->id().index); }

  std::unique_ptr<PipePair> pair_;
  PipeEnd left;
  PipeEnd right;
};

TEST_F(PipeTest, TheWaitForTheAnswerToALargeMessageSpinsLonger) {
  const auto spin_ns = [&] { return pair_->second_to_first->for_message().spin_ns; };
  exchange.unanswered_bytes = 0;  // this thread ran other tests
  arena::LeasePtr block = allocate(arena::Kind::kShare, 1 << 20);
  const std::uint64_t bytes = block->size();
  ASSERT_OK(left.send({.leases = {&block, 1}}, Deadline::after_seconds(10)));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes));
  Incoming message;
  ASSERT_OK(right.receive(message, Deadline::after_seconds(10)));
  EXPECT_EQ(spin_ns(), spin_ns_for(bytes)) << "it found the message there and did not wait";
  {
    const std::jthread other = test::when_asleep([&] { EXPECT_OK(send(right, "answer")); });
    EXPECT_EQ(*receive(left), "answer");
  }
  EXPECT_LT(spin_ns(), sync::kSpinNs + 100);
}

TEST_F(PipeTest, APollLearnsOfItsSleepAsAReceiveDoes) {
  exchange = {};  // this thread ran other tests
  exchange.unanswered_bytes = 1 << 20;
  domain::SpinPolicy& policy = *pair_->first_to_second->for_message().spin_policy;
  // The next wait does not spin, and the last sleeps there were short.
  for (int i = 0; i < domain::SpinPolicy::kVainSpins; ++i) policy.note_spin(false);
  for (int i = 0; i < domain::SpinPolicy::kShortSleeps; ++i) policy.note_sleep(1);
  ASSERT_TRUE(policy.is_long());
  EXPECT_CODE(Code::kTimeout, right.wait_readable(Deadline::after_ns(kMs)));
  EXPECT_TRUE(policy.is_long()) << "nothing came";
  EXPECT_FALSE(exchange.has_slept);
  {
    const std::jthread other = test::when_asleep([&] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(domain::SpinPolicy::kShortSleepNs + kMs));
      EXPECT_OK(send(left, "late"));
    });
    EXPECT_OK(right.wait_readable(Deadline::after_seconds(10)));
  }
  EXPECT_FALSE(policy.is_long());
  EXPECT_TRUE(exchange.has_slept);
  EXPECT_EQ(exchange.unanswered_bytes, 0U);
  EXPECT_EQ(*receive(right), "late");
}

TEST_F(PipeTest, BothWays) {
  ASSERT_OK(send(left, "there"));
  ASSERT_OK(send(right, "and back"));
  EXPECT_EQ(*receive(right), "there");
  EXPECT_EQ(*receive(left), "and back");
  EXPECT_CODE(Code::kTimeout, receive(left, 0));
  EXPECT_CODE(Code::kTimeout, receive(left, 0.02));
}

TEST_F(PipeTest, OneWay) {
  connect(false);
  ASSERT_OK(send(right, "x"));
  EXPECT_EQ(*receive(left), "x");
  EXPECT_CODE(Code::kInvalid, send(left, "x"));
  EXPECT_CODE(Code::kInvalid, receive(right));
  EXPECT_CODE(Code::kInvalid, right.wait_readable(Deadline::never()));
  EXPECT_OK(right.make_selectable());
}

TEST_F(PipeTest, TheEndComesBehindWhatWasSent) {
  ASSERT_OK(send(left, "last"));
  pair_->first_fd.close();
  left.let_go();
  EXPECT_OK(right.wait_readable(Deadline::after_ns(0)));
  EXPECT_EQ(*receive(right), "last");
  EXPECT_OK(right.wait_readable(Deadline::never()));
  EXPECT_CODE(Code::kClosed, receive(right));
  EXPECT_CODE(Code::kClosed, receive(right, 0));
  const Status broken = send(right, "into nothing");
  EXPECT_EQ(broken.errno_value(), EPIPE);
  EXPECT_EQ(right.out()->size(), 0U);
}

TEST_F(PipeTest, AClosedDescriptorIsAnError) {
  pair_->second_fd.close();
  EXPECT_EQ(send(right, "x").errno_value(), EBADF);
  EXPECT_EQ(receive(right).status().errno_value(), EBADF);
}

TEST_F(PipeTest, WhatNobodyWillTakeGoesBack) {
  arena::LeasePtr block = allocate(arena::Kind::kShare, 20'000);
  ASSERT_OK(left.send({.leases = {&block, 1}}, Deadline::never()));
  block.reset();
  pair_->second_fd.close();
  EXPECT_EQ(send(left, "x").errno_value(), EPIPE);
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

TEST_F(PipeTest, AFullPipeMakesTheWriterWait) {
  const std::string half(30'000, 'x');
  ASSERT_OK(send(left, half));
  ASSERT_OK(send(left, half));
  EXPECT_CODE(Code::kTimeout, send(left, half, 0.02));
  std::thread reader([&] { EXPECT_EQ(receive(right)->size(), half.size()); });
  EXPECT_OK(send(left, half));
  reader.join();
  // Without contents a message counts, too.
  connect(true);
  for (int i = 0; i < 64 * 1024 / 4; ++i) ASSERT_OK(send(left, ""));
  EXPECT_CODE(Code::kTimeout, send(left, "", 0));
}

TEST_F(PipeTest, AWriterThatWaitsLearnsOfTheReadersDeath) {
  connect(false);
  Gate ready;
  Child reader([&] {
    pair_->second_fd.close();
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  pair_->first_fd.close();
  ASSERT_OK(send(right, std::string(50'000, 'x')));
  const std::jthread killer = test::when_asleep([&] { reader.kill_now(); });
  const std::int64_t start = os::now_ns();
  EXPECT_EQ(send(right, std::string(50'000, 'x')).errno_value(), EPIPE);
  EXPECT_LT(os::now_ns() - start, 1000 * kMs);
}

TEST_F(PipeTest, AReaderThatSleepsLearnsOfTheWritersDeathAtOnce) {
  connect(false);
  Gate ready;
  Child writer([&] {
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  pair_->second_fd.close();
  std::atomic<std::int64_t> killed{0};
  std::jthread killer = test::when_asleep([&] {
    killed = os::now_ns();
    writer.signal(SIGKILL);
  });
  EXPECT_CODE(Code::kClosed, receive(left));
  EXPECT_LT(os::now_ns() - killed.load(), 100 * kMs);
  killer.join();  // it reads what wait() writes
  writer.wait();
}

// K: while a message is there, a token is; and none is there without a message for longer than a look.
TEST_F(PipeTest, TokensFollowMessages) {
  for (const bool selectable : {false, true}) {
    connect(true);
    if (selectable) {
      ASSERT_OK(right.make_selectable());
    }
    EXPECT_FALSE(shows(right));
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 1000; ++i) ASSERT_OK(send(left, "x"));
      for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(shows(right)) << i;
        ASSERT_EQ(*receive(right), "x");
      }
      EXPECT_FALSE(shows(right));
      EXPECT_EQ(tokens(right), 0U);
    }
  }
}

TEST_F(PipeTest, ASpinningReaderNeedsNoToken) {
  row(right.in()).item_spinner.store(static_cast<std::uint64_t>(os::now_ns() + 1000 * kMs));
  ASSERT_OK(send(left, "1"));
  EXPECT_EQ(tokens(right), 0U);
  // The next one cannot know whether the spinner takes two.
  ASSERT_OK(send(left, "2"));
  EXPECT_EQ(tokens(right), 1U);
  EXPECT_EQ(*receive(right), "1");
  EXPECT_TRUE(shows(right));
  EXPECT_EQ(*receive(right), "2");
  EXPECT_FALSE(shows(right));
  // For those who select there is no exception.
  ASSERT_OK(right.make_selectable());
  row(right.in()).item_spinner.store(static_cast<std::uint64_t>(os::now_ns() + 1000 * kMs));
  ASSERT_OK(send(left, "3"));
  EXPECT_TRUE(shows(right));
  // A spinner whose time is over has died.
  connect(true);
  row(right.in()).item_spinner.store(1);
  ASSERT_OK(send(left, "4"));
  EXPECT_TRUE(shows(right));
}

// As a killed process leaves them: a message without its token, a token without its count.
TEST_F(PipeTest, LostTokensAndCountsHeal) {
  ASSERT_OK(right.make_selectable());
  ASSERT_OK(send(left, "1"));
  std::byte token{};
  os::discard(right.fd(), {&token, 1});
  row(right.in()).tokens_read.store(1);
  EXPECT_FALSE(shows(right));
  EXPECT_OK(right.wait_readable(Deadline::after_ns(0)));  // a look shows it
  ASSERT_OK(send(left, "2"));
  EXPECT_TRUE(shows(right));
  EXPECT_EQ(*receive(right), "1");
  EXPECT_TRUE(shows(right));
  EXPECT_EQ(*receive(right), "2");
  EXPECT_FALSE(shows(right));

  ASSERT_TRUE(os::send_byte(left.fd(), std::byte{0}));  // sent, not counted
  EXPECT_TRUE(shows(right));
  EXPECT_CODE(Code::kTimeout, right.wait_readable(Deadline::after_ns(0)));
  EXPECT_FALSE(shows(right));
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(send(left, "x"));
    EXPECT_TRUE(shows(right));
    EXPECT_EQ(*receive(right), "x");
    EXPECT_FALSE(shows(right));
  }
  row(right.in()).tokens_read.fetch_add(3);  // counted, not removed
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(send(left, "x"));
    EXPECT_TRUE(shows(right));
    EXPECT_EQ(*receive(right), "x");
    EXPECT_FALSE(shows(right));
  }
  EXPECT_EQ(row(right.in()).tokens_read.load(), row(right.in()).tokens_sent.load());
}

TEST_F(PipeTest, BytesThatAreNotOursStay) {
  // As a program passes a descriptor: it asks for its own end's, and sends on that.
  ASSERT_OK(send(left, "1"));
  ASSERT_OK(send(left, "2"));
  ASSERT_OK(left.make_selectable());
  ASSERT_TRUE(os::send_byte(left.fd(), std::byte{1}));
  ASSERT_OK(send(left, "3"));
  ASSERT_OK(send(left, "4"));
  EXPECT_EQ(*receive(right), "1");
  EXPECT_EQ(*receive(right), "2");
  std::byte next{};
  ASSERT_EQ(os::peek(right.fd(), {&next, 1}), 1);
  EXPECT_EQ(next, std::byte{1});  // whoever wants the descriptor finds it first
  EXPECT_EQ(*receive(right), "3");
  os::discard(right.fd(), {&next, 1});
  EXPECT_TRUE(shows(right));  // and what was sent behind it shows
  EXPECT_EQ(*receive(right), "4");
  EXPECT_FALSE(shows(right));

  ASSERT_TRUE(os::send_byte(left.fd(), std::byte{1}));
  EXPECT_OK(right.wait_readable(Deadline::after_ns(0)));
  EXPECT_CODE(Code::kTimeout, receive(right, 0.05));
  {
    const std::jthread late = test::when_asleep([&] { ASSERT_OK(send(left, "still comes through")); });
    EXPECT_EQ(*receive(right), "still comes through");
  }
  os::discard(right.fd(), {&next, 1});
  EXPECT_CODE(Code::kTimeout, right.wait_readable(Deadline::after_ns(0)));
  EXPECT_FALSE(shows(right));
}

TEST_F(PipeTest, AShutDownEndIsAnEnd) {
  ASSERT_EQ(::shutdown(left.fd(), SHUT_WR), 0);
  EXPECT_CODE(Code::kClosed, receive(right));
}

TEST_F(PipeTest, ManyAtBothEnds) {
  connect(false);
  ASSERT_OK(left.make_selectable());
  constexpr int kEach = 2000;
  std::atomic<int> got{0};
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) ASSERT_OK(send(right, std::to_string(t * kEach + i)));
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        Result<std::string> text = receive(left);
        ASSERT_OK(text.status());
        sum += std::stoi(*text);
        ++got;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got.load(), 3 * kEach);
  EXPECT_EQ(sum.load(), std::int64_t{3} * kEach * (3 * kEach - 1) / 2);
  EXPECT_CODE(Code::kTimeout, left.wait_readable(Deadline::after_ns(0)));
  EXPECT_FALSE(shows(left));
}

TEST_F(PipeTest, AnInterruptedReceiveTakesNothing) {
  struct Stop final : WaitHooks {
    Stop() { slice_ns = 5 * kMs; }
    Status poll() override { return {Code::kInterrupted, "stop"}; }
  } stop;
  Incoming message;
  EXPECT_CODE(Code::kInterrupted, left.receive(message, Deadline::never(), &stop));
  EXPECT_CODE(Code::kInterrupted, left.wait_readable(Deadline::never(), &stop));
  ASSERT_OK(send(right, std::string(60'000, 'x')));
  const std::string more(60'000, 'y');
  EXPECT_CODE(Code::kInterrupted, right.send({.bytes = bytes_of(more)}, Deadline::never(), &stop));
  EXPECT_EQ(left.in()->size(), 1U);
}

// What no pipe of the standard library's could hold, for those who asked for it.
class MeetingPipeTest : public PipeTest {
 protected:
  void SetUp() override {
    PipeTest::SetUp();
    connect(false);
    right.meet_readers();
  }
  // In a thread of its own; `returned` tells when.
  std::thread sending(std::size_t bytes, Code expected) {
    return std::thread([this, bytes, expected] {
      sends.is_me();
      const std::string large(bytes, 'x');
      EXPECT_EQ(right.send({.bytes = bytes_of(large)}, Deadline::never()).code(), expected);
      returned = true;
    });
  }
  std::atomic<bool> returned{false};
  test::Sleeper sends;
};

TEST_F(MeetingPipeTest, ALargeMessageReturnsWhenItWasTaken) {
  std::thread sender = sending(kPipeBytes + 1, Code::kOk);
  EXPECT_OK(left.wait_readable(Deadline::after_seconds(10)));
  EXPECT_TRUE(sends.asleep());
  EXPECT_FALSE(returned);
  EXPECT_EQ(receive(left)->size(), kPipeBytes + 1);
  sender.join();
}

TEST_F(MeetingPipeTest, WhatItHoldsDoesNotWait) {
  sending(kPipeBytes, Code::kOk).join();
  EXPECT_EQ(receive(left)->size(), kPipeBytes);
}

TEST_F(MeetingPipeTest, AHandleIsNoLargeMessageButACopyIs) {
  arena::LeasePtr block = allocate(arena::Kind::kShare, 1 << 20);
  ASSERT_OK(right.send({.leases = {&block, 1}}, Deadline::never()));
  EXPECT_OK(receive(left).status());
  block = allocate(arena::Kind::kShare, 1 << 20);
  std::thread sender([&] {
    sends.is_me();
    EXPECT_OK(right.send({.leases = {&block, 1}, .copied_bytes = 1 << 20}, Deadline::never()));
    returned = true;
  });
  EXPECT_OK(left.wait_readable(Deadline::after_seconds(10)));
  EXPECT_TRUE(sends.asleep());
  EXPECT_FALSE(returned);
  EXPECT_OK(receive(left).status());
  sender.join();
}

TEST_F(MeetingPipeTest, NobodyComes) {
  std::thread sender = sending(kPipeBytes + 1, Code::kSystem);  // EPIPE
  EXPECT_OK(left.wait_readable(Deadline::after_seconds(10)));
  pair_->first_fd.close();
  left.let_go();
  sender.join();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

}  // namespace
}  // namespace forklift::channel
