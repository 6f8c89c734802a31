// Messages that are claimed and acknowledged: what comes back, when, in which order, and what is released.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "support/asleep.h"
#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Kind;
using arena::LeasePtr;
using os::Deadline;
using test::audit_of;
using test::bytes_of;
using test::Child;
using test::eventually;
using test::Gate;
using test::put_text;
using test::text_of;

struct Claimed {
  std::string text;
  Receipt receipt;
};

class ClaimTest : public test::NodeFixture {
 protected:
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }, 30'000));
    NodeFixture::TearDown();
  }
  static Result<Claimed> claim(Channel& channel, double seconds = 30) {
    Incoming message;
    Claimed made;
    if (Status got = channel.claim(message, made.receipt, Deadline::after_seconds(seconds)); !got) return got;
    made.text = text_of(message);
    return made;
  }
  // The next one's text, acknowledged.
  static std::string take(Channel& channel) {
    Result<Claimed> got = claim(channel);
    if (!got) return got.status().to_string();
    if (Status ended = channel.acknowledge(got->receipt); !ended) return ended.to_string();
    return got->text;
  }
  static Code code_of_claim(Channel& channel) { return claim(channel, 0).code(); }
  // A process that claims `count` messages and waits to be killed.
  static Child claimer(const ChannelPtr& channel, int count, Gate& claimed) {
    return Child([&, channel, count] {
      for (int i = 0; i < count; ++i) ASSERT_OK(claim(*channel));
      claimed.open();
      Gate never;
      never.wait(600'000);
    });
  }
};

TEST_F(ClaimTest, AcknowledgedMessagesAreGone) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  ASSERT_OK(put_text(*channel, "one"));
  EXPECT_EQ(channel->unacknowledged(), 0U);
  Result<Claimed> one = claim(*channel);
  ASSERT_OK(one);
  EXPECT_EQ(one->text, "one");
  EXPECT_EQ(one->receipt.tries(), 1U);
  EXPECT_EQ(channel->size(), 0U);
  EXPECT_EQ(channel->unacknowledged(), 1U);
  EXPECT_EQ(channel->unfinished(), 1U);
  ASSERT_OK(channel->acknowledge(one->receipt));
  EXPECT_EQ(channel->unacknowledged(), 0U);
  EXPECT_EQ(channel->unfinished(), 0U);
  EXPECT_EQ(channel->acknowledge(one->receipt).code(), Code::kInvalid);
  EXPECT_EQ(channel->give_back(one->receipt).code(), Code::kInvalid);
  EXPECT_EQ(code_of_claim(*channel), Code::kTimeout);
}

TEST_F(ClaimTest, WhatIsGivenBackComesFirstAndInOrder) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  for (const char* text : {"one", "two", "three", "four"}) ASSERT_OK(put_text(*channel, text));
  std::vector<Claimed> held;
  for (int i = 0; i < 3; ++i) held.push_back(*claim(*channel));
  for (const int each : {1, 2, 0})
    ASSERT_OK(channel->give_back(held[static_cast<std::size_t>(each)].receipt));
  EXPECT_EQ(channel->size(), 4U);
  for (const char* text : {"one", "two", "three", "four"}) {
    Result<Claimed> again = claim(*channel);
    ASSERT_OK(again);
    EXPECT_EQ(again->text, text);
    EXPECT_EQ(again->receipt.tries(), again->text == "four" ? 1U : 2U);
    ASSERT_OK(channel->acknowledge(again->receipt));
  }
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ClaimTest, WhatAKilledProcessHeldComesBack) {
  const ChannelPtr channel = make_channel({.receipts = 8});
  for (int i = 0; i < 4; ++i) ASSERT_OK(put_text(*channel, std::to_string(i)));
  Gate claimed;
  Child child = claimer(channel, 3, claimed);
  ASSERT_TRUE(claimed.wait(60'000));
  EXPECT_EQ(channel->unacknowledged(), 3U);
  EXPECT_EQ(take(*channel), "3");
  child.kill_now();
  for (const char* text : {"0", "1", "2"}) {
    Result<Claimed> again = claim(*channel);  // waits for the reaper, if need be
    ASSERT_OK(again);
    EXPECT_EQ(again->text, text);
    EXPECT_EQ(again->receipt.tries(), 2U);
    ASSERT_OK(channel->acknowledge(again->receipt));
  }
  EXPECT_EQ(channel->unacknowledged(), 0U);
}

TEST_F(ClaimTest, ACleanExitGivesBackToo) {
  const ChannelPtr channel = make_channel({.receipts = 8});
  ASSERT_OK(put_text(*channel, "kept"));
  Child child([&] { ASSERT_OK(claim(*channel)); });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(take(*channel), "kept");
}

TEST_F(ClaimTest, AWaitingClaimIsWokenByWhatComesBack) {
  const ChannelPtr channel = make_channel({.receipts = 8});
  ASSERT_OK(put_text(*channel, "given back"));
  Result<Claimed> held = claim(*channel);
  ASSERT_OK(held);
  Child child([&] { EXPECT_EQ(take(*channel), "given back"); });
  EXPECT_TRUE(test::eventually_asleep(child.pid()));
  ASSERT_OK(channel->give_back(held->receipt));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ClaimTest, FailedTooOftenGoesToTheDeadLetters) {
  const ChannelPtr letters = make_channel();
  const ChannelPtr channel = make_channel({.receipts = 8, .tries = 2, .dead_letters = letters});
  ASSERT_OK(put_text(*channel, "poison"));
  ASSERT_OK(put_text(*channel, "food"));
  for (int i = 0; i < 2; ++i) ASSERT_OK(channel->give_back(claim(*channel)->receipt));
  EXPECT_EQ(take(*channel), "food");
  EXPECT_EQ(*test::get_text(*letters), "poison");
  EXPECT_EQ(channel->unacknowledged(), 0U);
  EXPECT_EQ(channel->dropped(), 0U);
}

TEST_F(ClaimTest, WithoutDeadLettersItIsDroppedAndCounted) {
  const ChannelPtr channel = make_channel({.receipts = 8, .tries = 1});
  const ChannelPtr closed = make_channel();
  const ChannelPtr other = make_channel({.receipts = 8, .tries = 1, .dead_letters = closed});
  ASSERT_OK(closed->close());
  for (const ChannelPtr& each : {channel, other}) {
    ASSERT_OK(put_text(*each, "poison"));
    ASSERT_OK(each->give_back(claim(*each)->receipt));
    EXPECT_EQ(code_of_claim(*each), Code::kTimeout);
    EXPECT_EQ(each->dropped(), 1U);
    EXPECT_EQ(each->unacknowledged(), 0U);
  }
}

TEST_F(ClaimTest, AFullDeadLetterQueueKeepsTheMessage) {
  const ChannelPtr letters = make_channel({.capacity = 1});
  const ChannelPtr channel = make_channel({.receipts = 8, .tries = 1, .dead_letters = letters});
  ASSERT_OK(put_text(*letters, "earlier"));
  ASSERT_OK(put_text(*channel, "poison"));
  ASSERT_OK(channel->give_back(claim(*channel)->receipt));
  EXPECT_EQ(code_of_claim(*channel), Code::kTimeout);
  EXPECT_EQ(channel->size(), 1U);
  EXPECT_EQ(*test::get_text(*letters), "earlier");
  EXPECT_EQ(code_of_claim(*channel), Code::kTimeout);
  EXPECT_EQ(*test::get_text(*letters), "poison");
  EXPECT_EQ(channel->size(), 0U);
}

TEST_F(ClaimTest, TheDeadLettersLiveAsLongAsTheirQueue) {
  ChannelPtr letters = make_channel();
  const ChannelId id = letters->id();
  ChannelPtr channel = make_channel({.receipts = 2, .tries = 1, .dead_letters = letters});
  letters.reset();
  ASSERT_OK(put_text(*channel, "poison"));
  ASSERT_OK(channel->give_back(claim(*channel)->receipt));
  EXPECT_EQ(code_of_claim(*channel), Code::kTimeout);
  Result<ChannelPtr> opened = Channel::open(node().channels(), id);
  ASSERT_OK(opened);
  EXPECT_EQ(*test::get_text(**opened), "poison");
  opened->reset();
  channel.reset();
  EXPECT_EQ(Channel::open(node().channels(), id).code(), Code::kInvalid);
}

// Closed: what is claimed can still be acknowledged, what comes back can still be got; then it is the end.
TEST_F(ClaimTest, AClosedQueueEndsWhenEverythingIsAcknowledged) {
  const ChannelPtr channel = make_channel({.receipts = 8});
  ASSERT_OK(put_text(*channel, "one"));
  Result<Claimed> held = claim(*channel);
  ASSERT_OK(held);
  ASSERT_OK(channel->close());
  EXPECT_EQ(put_text(*channel, "late").code(), Code::kClosed);
  EXPECT_EQ(code_of_claim(*channel), Code::kTimeout) << "it may come back";
  ASSERT_OK(channel->give_back(held->receipt));
  held = claim(*channel);
  ASSERT_OK(held);
  EXPECT_EQ(held->text, "one");
  Child waits([&] { EXPECT_EQ(claim(*channel).code(), Code::kClosed); });
  EXPECT_TRUE(test::eventually_asleep(waits.pid()));
  ASSERT_OK(channel->acknowledge(held->receipt));
  EXPECT_EQ(waits.wait(), 0);
  EXPECT_EQ(code_of_claim(*channel), Code::kClosed);
}

TEST_F(ClaimTest, AllClaimsInUse) {
  const ChannelPtr channel = make_channel({.receipts = 2});
  for (const char* text : {"one", "two", "three"}) ASSERT_OK(put_text(*channel, text));
  Result<Claimed> one = claim(*channel);
  Result<Claimed> two = claim(*channel);
  ASSERT_OK(two);
  const Result<Claimed> third = claim(*channel);
  EXPECT_EQ(third.code(), Code::kNoSpace);
  EXPECT_NE(third.status().to_string().find("2 messages"), std::string::npos) << third.status().to_string();
  Child other([&] { EXPECT_EQ(take(*channel), "three"); });
  EXPECT_TRUE(test::eventually_asleep(other.pid()))
      << "another process waits for room: these claims will end";
  ASSERT_OK(channel->acknowledge(one->receipt));
  EXPECT_EQ(other.wait(), 0);
  ASSERT_OK(channel->acknowledge(two->receipt));
}

TEST_F(ClaimTest, JoinWaitsForEveryAcknowledgement) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  ASSERT_OK(put_text(*channel, "job"));
  Gate claimed;
  Child child = claimer(channel, 1, claimed);
  ASSERT_TRUE(claimed.wait(60'000));
  EXPECT_EQ(channel->join(Deadline::after_ns(0)).code(), Code::kTimeout);
  Child joiner([&] { ASSERT_OK(channel->join(Deadline::after_seconds(60))); });
  EXPECT_TRUE(test::eventually_asleep(joiner.pid()));
  child.kill_now();
  EXPECT_EQ(take(*channel), "job");
  EXPECT_EQ(joiner.wait(), 0);
}

TEST_F(ClaimTest, TheNextClaimAcknowledgesTheLastOne) {
  const ChannelPtr channel = make_channel({.receipts = 1});
  ASSERT_OK(put_text(*channel, "one"));
  ASSERT_OK(put_text(*channel, "two"));
  Result<Claimed> held = claim(*channel);
  ASSERT_OK(held);
  Incoming message;
  channel::Receipt next;
  ASSERT_OK(channel->claim_next(held->receipt, message, next, Deadline::after_ns(0)));
  EXPECT_EQ(channel->unacknowledged(), 1U);
  Child joiner([&] { ASSERT_OK(channel->join(Deadline::after_seconds(60))); });
  EXPECT_TRUE(test::eventually_asleep(joiner.pid()));
  channel::Receipt none;
  EXPECT_EQ(channel->claim_next(next, message, none, Deadline::after_ns(0)).code(), Code::kTimeout)
      << "it is acknowledged although nothing comes";
  EXPECT_EQ(channel->unacknowledged(), 0U);
  EXPECT_EQ(joiner.wait(), 0);
}

TEST_F(ClaimTest, AForkedCopyOfAClaimIsNone) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  ASSERT_OK(put_text(*channel, "one"));
  Result<Claimed> held = claim(*channel);
  ASSERT_OK(held);
  Child child([&] {
    EXPECT_EQ(channel->check_mine(held->receipt).code(), Code::kBrokenByFork);
    EXPECT_EQ(channel->acknowledge(held->receipt).code(), Code::kBrokenByFork);
    EXPECT_EQ(channel->give_back(held->receipt).code(), Code::kBrokenByFork);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(channel->unacknowledged(), 1U);
  ASSERT_OK(channel->acknowledge(held->receipt));
}

// The first process of a new domain has slot 0 in generation 0; a child that runs no fork handlers has none.
TEST_F(ClaimTest, NoClaimOfTheFirstProcessIsItsClonesOwn) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  ASSERT_OK(put_text(*channel, "one"));
  Result<Claimed> held = claim(*channel);
  ASSERT_OK(held);
  EXPECT_TRUE(channel->is_mine(held->receipt.state));
  const long clone = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (clone == 0) ::_exit(channel->is_mine(held->receipt.state) ? 1 : 0);
  ASSERT_GT(clone, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(static_cast<pid_t>(clone), &status, 0), clone);
  EXPECT_EQ(status, 0) << "it could acknowledge its parent's message";
  ASSERT_OK(channel->acknowledge(held->receipt));
}

TEST_F(ClaimTest, GetsAndClaimsAreForTheirOwnKind) {
  const ChannelPtr once = make_channel();
  const ChannelPtr channel = make_channel({.receipts = 4});
  Incoming message;
  EXPECT_EQ(channel->get(message, Deadline::after_ns(0)).code(), Code::kInvalid);
  EXPECT_EQ(code_of_claim(*once), Code::kInvalid);
  EXPECT_FALSE(channel->task_done());
  EXPECT_EQ(Channel::create(node().channels(), {.receipts = kMostReceipts + 1}).code(), Code::kInvalid);
  EXPECT_EQ(Channel::create(node().channels(), {.receipts = 1, .tries = 4096}).code(), Code::kInvalid);
}

// The memory of a message lives until it is acknowledged, whatever became of those who received it.
TEST_F(ClaimTest, BlocksLiveUntilTheAcknowledgement) {
  const ChannelPtr channel = make_channel({.receipts = 4});
  const std::uint64_t before = arena().stats().held_blocks;
  for (const std::size_t bytes : {std::size_t{40}, std::size_t{3000}}) {  // in the row, and spilled
    const std::string text(bytes, 'x');
    LeasePtr block = allocate(Kind::kShare, 5000);
    block->data()[4999] = std::byte{42};
    const std::array<LeasePtr, 1> leases{std::move(block)};
    ASSERT_OK(channel->put({.bytes = bytes_of(text), .leases = leases}, Deadline::after_seconds(30)));
    for (std::uint32_t tries = 1; tries <= 3; ++tries) {
      Incoming message;
      Receipt receipt;
      ASSERT_OK(channel->claim(message, receipt, Deadline::after_seconds(30)));
      EXPECT_EQ(receipt.tries(), tries);
      EXPECT_EQ(text_of(message), text);
      ASSERT_EQ(message.leases().size(), 1U);
      EXPECT_EQ(message.leases()[0]->data()[4999], std::byte{42});
      message.clear();
      if (tries < 3) {
        ASSERT_OK(channel->give_back(receipt));
      } else {
        EXPECT_GT(arena().stats().held_blocks, before);
        ASSERT_OK(channel->acknowledge(receipt));
      }
      EXPECT_EQ(audit_of(node()), "");
    }
    EXPECT_EQ(arena().stats().held_blocks, before);
  }
}

TEST_F(ClaimTest, ThousandsInAnyOrder) {
  constexpr std::uint32_t kAtATime = 100;
  const ChannelPtr channel = make_channel({.receipts = kAtATime});
  std::vector<std::optional<Claimed>> held(kAtATime);
  std::uint64_t draw = 1;
  for (int i = 0; i < 20'000; ++i) {
    draw = draw * 6364136223846793005U + 1442695040888963407U;
    std::optional<Claimed>& place = held[(draw >> 33) % kAtATime];
    if (place) {
      ASSERT_OK(channel->acknowledge(place->receipt));
    }
    ASSERT_OK(put_text(*channel, std::to_string(i)));
    place = *claim(*channel);
    ASSERT_EQ(place->text, std::to_string(i));
  }
  for (const std::optional<Claimed>& place : held) {
    if (place) {
      ASSERT_OK(channel->acknowledge(place->receipt));
    }
  }
  EXPECT_EQ(channel->unacknowledged(), 0U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ClaimTest, TheLastHandleDropsWhatIsClaimed) {
  ChannelPtr channel = make_channel({.receipts = 4});
  for (int i = 0; i < 3; ++i) {
    const std::array<LeasePtr, 1> leases{allocate(Kind::kShare, 5000)};
    ASSERT_OK(channel->put({.bytes = bytes_of("x"), .leases = leases}, Deadline::after_seconds(30)));
  }
  ASSERT_OK(claim(*channel));
  ASSERT_OK(channel->give_back(claim(*channel)->receipt));
  channel.reset();  // and the fixture finds nothing left
  EXPECT_EQ(audit_of(node()), "");
}

}  // namespace
}  // namespace forklift::channel
