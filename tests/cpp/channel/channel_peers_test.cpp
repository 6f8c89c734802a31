// Channels between threads and processes: every message arrives once and in its putter's order, rights pass
// to children, and what the dead held comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "os/mapping.h"
#include "os/memfd.h"
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
using test::get_text;
using test::put_text;

constexpr unsigned kPutters = 3;
constexpr unsigned kMost = 20'000;  // messages of one putter

struct Note {
  std::uint32_t putter;
  std::uint32_t number;
};
constexpr std::uint32_t kStop = 0xffffffff;

// How often each message was received. Shared memory, as receivers may be processes.
struct Log {
  std::atomic<std::uint8_t> seen[kPutters][kMost];
  std::atomic<std::uint32_t> disorder;
  std::atomic<std::uint32_t> damage;
};

class ChannelPeersTest : public test::NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    Result<os::Fd> file = os::create_memfd("forklift-test", sizeof(Log));
    ASSERT_OK(file);
    Result<os::Mapping> mapping = os::Mapping::shared(*file, 0, sizeof(Log));
    ASSERT_OK(mapping);
    mapping_ = *std::move(mapping);
    log_ = new (mapping_.data()) Log;
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }

  // Some inline, some spilled, some with a lease; the size and the contents follow from the number.
  void put_all(Channel& channel, std::uint32_t putter, std::uint32_t count) {
    std::vector<std::byte> bytes;
    for (std::uint32_t number = 0; number < count; ++number) {
      const Note note{putter, number};
      const std::size_t extra = number % 97 == 0 ? 9000 : number % 300;
      bytes.assign(sizeof note + extra, static_cast<std::byte>(number));
      std::memcpy(bytes.data(), &note, sizeof note);
      LeasePtr lease;
      if (number % 10 == 0) {
        lease = allocate(Kind::kPrivate, 5000);
        std::memcpy(lease->data() + 4000, &note, sizeof note);
      }
      const std::span<const LeasePtr> leases(&lease, lease ? 1 : 0);
      ASSERT_OK(channel.put({.bytes = bytes, .leases = leases}, Deadline::after_seconds(60)));
    }
  }
  void get_all(Channel& channel) {
    std::array<std::int64_t, kPutters> last;
    last.fill(-1);
    Incoming message;
    for (;;) {
      ASSERT_OK(channel.get(message, Deadline::after_seconds(60)));
      Note note{};
      ASSERT_GE(message.bytes().size(), sizeof note);
      std::memcpy(&note, message.bytes().data(), sizeof note);
      if (note.putter == kStop) return;
      ASSERT_LT(note.putter, kPutters);
      ASSERT_LT(note.number, kMost);
      if (last[note.putter] >= note.number) ++log_->disorder;
      last[note.putter] = note.number;
      for (std::size_t i = sizeof note; i < message.bytes().size(); ++i) {
        if (message.bytes()[i] != static_cast<std::byte>(note.number)) ++log_->damage;
      }
      if (message.leases().size() != (note.number % 10 == 0 ? 1U : 0U)) {
        ++log_->damage;
      } else if (!message.leases().empty() &&
                 std::memcmp(message.leases()[0]->data() + 4000, &note, sizeof note) != 0) {
        ++log_->damage;
      }
      ++log_->seen[note.putter][note.number];
    }
  }
  void stop(Channel& channel, unsigned getters) {
    const Note note{kStop, 0};
    for (unsigned i = 0; i < getters; ++i)
      EXPECT_OK(channel.put({.bytes = std::as_bytes(std::span(&note, 1))}, Deadline::after_seconds(60)));
  }
  void expect_each_once(std::uint32_t count) {
    for (unsigned putter = 0; putter < kPutters; ++putter) {
      for (std::uint32_t number = 0; number < count; ++number)
        ASSERT_EQ(log_->seen[putter][number], 1) << putter << ": " << number;
    }
    EXPECT_EQ(log_->disorder, 0U);
    EXPECT_EQ(log_->damage, 0U);
    EXPECT_EQ(audit_of(node()), "");
  }

  os::Mapping mapping_;
  Log* log_ = nullptr;
};

class ChannelManyTest : public ChannelPeersTest, public testing::WithParamInterface<ChannelOptions> {};

TEST_P(ChannelManyTest, ThreadsAtBothEnds) {
  constexpr std::uint32_t kCount = 4000;
  ChannelPtr channel = make_channel(GetParam());
  std::vector<std::thread> getters;
  std::vector<std::thread> putters;
  for (unsigned i = 0; i < 3; ++i) getters.emplace_back([&] { get_all(*channel); });
  for (unsigned i = 0; i < kPutters; ++i) putters.emplace_back([&, i] { put_all(*channel, i, kCount); });
  for (std::thread& putter : putters) putter.join();
  stop(*channel, 3);
  for (std::thread& getter : getters) getter.join();
  expect_each_once(kCount);
}

TEST_P(ChannelManyTest, ProcessesAtBothEnds) {
  constexpr std::uint32_t kCount = 4000;
  ChannelPtr channel = make_channel(GetParam());
  std::vector<Child> getters;
  std::vector<Child> putters;
  for (unsigned i = 0; i < 3; ++i) getters.emplace_back([&] { get_all(*channel); });
  for (unsigned i = 0; i < kPutters; ++i) putters.emplace_back([&, i] { put_all(*channel, i, kCount); });
  for (Child& putter : putters) EXPECT_EQ(putter.wait(), 0);
  stop(*channel, 3);
  for (Child& getter : getters) EXPECT_EQ(getter.wait(), 0);
  expect_each_once(kCount);
}

INSTANTIATE_TEST_SUITE_P(Bounds, ChannelManyTest,
                         testing::Values(ChannelOptions{}, ChannelOptions{.capacity = 1},
                                         ChannelOptions{.capacity = 50},
                                         ChannelOptions{.byte_capacity = 64 * 1024}));

// Many that want one message each, and many that put one each, over and over: wake-ups are passed to the
// right ones.
TEST_F(ChannelPeersTest, PingPongAmongProcesses) {
  ChannelPtr there = make_channel();
  ChannelPtr back = make_channel();
  std::vector<Child> echoes;
  for (int i = 0; i < 3; ++i) {
    echoes.emplace_back([&] {
      for (;;) {
        Result<std::string> text = get_text(*there, 60);
        ASSERT_OK(text);
        if (*text == "stop") return;
        ASSERT_OK(put_text(*back, *text));
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    ASSERT_OK(put_text(*there, std::to_string(i)));
    ASSERT_EQ(*get_text(*back, 60), std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) ASSERT_OK(put_text(*there, "stop"));
  for (Child& echo : echoes) EXPECT_EQ(echo.wait(), 0);
}

TEST_F(ChannelPeersTest, JoinWaitsForTasksInOtherProcesses) {
  ChannelPtr channel = make_channel();
  std::vector<Child> workers;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([&] {
      for (;;) {
        Result<std::string> task = get_text(*channel, 60);
        ASSERT_OK(task);
        EXPECT_TRUE(channel->task_done());
        if (*task == "stop") return;
      }
    });
  }
  for (int i = 0; i < 1000; ++i) ASSERT_OK(put_text(*channel, "task"));
  for (int i = 0; i < 2; ++i) ASSERT_OK(put_text(*channel, "stop"));
  EXPECT_OK(channel->join(Deadline::after_seconds(60)));
  EXPECT_EQ(channel->unfinished(), 0U);
  EXPECT_TRUE(channel->empty());
  for (Child& worker : workers) EXPECT_EQ(worker.wait(), 0);
}

TEST_F(ChannelPeersTest, MessagesOutliveTheirPutter) {
  ChannelPtr channel = make_channel();
  Child child([&] {
    for (int i = 0; i < 100; ++i) {
      LeasePtr block = allocate(Kind::kShare, 5000);
      std::memset(block->data(), i, 5000);
      ASSERT_OK(channel->put({.leases = {&block, 1}}, Deadline::never()));
    }
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(child.wait(), -SIGKILL);
  domain().reap();  // the fork itself reaps a child that was faster than its parent
  EXPECT_EQ(domain().live_slots(), 1U);
  Incoming message;
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(channel->get(message, Deadline::after_seconds(0)));
    ASSERT_EQ(message.leases().size(), 1U);
    EXPECT_EQ(message.leases()[0]->data()[4999], static_cast<std::byte>(i));
  }
}

TEST_F(ChannelPeersTest, AChannelWhoseLastHolderIsKilledIsEmptiedByTheReaper) {
  Gate ready;
  Child child([&] {
    ChannelPtr channel = make_channel();
    for (int i = 0; i < 100; ++i) {
      LeasePtr block = allocate(Kind::kShare, 5000);
      ASSERT_OK(
          channel->put({.bytes = bytes_of(std::string(500, 'x')), .leases = {&block, 1}}, Deadline::never()));
    }
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(node().channels().live(), 1U);
  child.kill_now();
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(node().channels().live(), 0U);
  EXPECT_EQ(arena().stats().held_blocks, 0U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ChannelPeersTest, AForkedChildHoldsTheChannel) {
  ChannelPtr channel = make_channel();
  Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    ASSERT_OK(put_text(*channel, "its parent has left"));
    EXPECT_EQ(*get_text(*channel), "its parent has left");
  });
  channel.reset();
  EXPECT_EQ(node().channels().live(), 1U);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(node().channels().live(), 0U);
}

// Arguments: descriptors of control, data and slot lock, slot index and generation, channel index and
// generation.
int answer_through(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t at) { return std::stoi(arguments.at(at)); };
  const auto unsigned_number = [&](std::size_t at) { return static_cast<std::uint32_t>(number(at)); };
  Result<node::Node*> node =
      node::Node::join(os::Fd(number(0)), os::Fd(number(1)),
                       domain::ChildSlot{{unsigned_number(3), unsigned_number(4)}, os::Fd(number(2))});
  if (!node) return 2;
  Result<ChannelPtr> channel = Channel::open((*node)->channels(), {unsigned_number(5), unsigned_number(6)});
  if (!channel) return 3;
  const Result<std::string> question = get_text(**channel);
  if (!question || *question != "question") return 4;
  return put_text(**channel, "answer").ok() ? 0 : 5;
}
const bool kHelper = test::add_helper("answer", answer_through);

TEST_F(ChannelPeersTest, AnOfferedChannelIsOpenedByAProgramStartedAnew) {
  ASSERT_TRUE(kHelper);
  ChannelPtr channel = make_channel();
  Result<node::Invitation> invitation = node().invite();
  ASSERT_OK(invitation);
  EXPECT_OK(channel->offer(invitation->child.slot));
  EXPECT_EQ(arena().stats().leases, 2U);
  const std::array fds{invitation->control.get(), invitation->data.get(), invitation->child.lock.get()};
  std::vector<std::string> arguments;
  for (const int fd : fds) arguments.push_back(std::to_string(fd));
  for (const std::uint32_t part : {invitation->child.slot.index, invitation->child.slot.generation,
                                   channel->id().index, channel->id().generation})
    arguments.push_back(std::to_string(part));
  Child child = test::start_helper("answer", arguments, fds);
  invitation->child.lock.close();
  ASSERT_OK(put_text(*channel, "question"));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(*get_text(*channel), "answer");
  domain().reap();
  EXPECT_EQ(arena().stats().leases, 1U);
}

TEST_F(ChannelPeersTest, AnOfferThatNobodyTookUpEndsWithTheSlot) {
  ChannelPtr channel = make_channel();
  {
    Result<node::Invitation> invitation = node().invite();
    ASSERT_OK(invitation);
    EXPECT_OK(channel->offer(invitation->child.slot));
    channel.reset();
    EXPECT_EQ(node().channels().live(), 1U);
  }
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(node().channels().live(), 0U);
}

// Channels come and go while others open them by a number that may be old.
TEST_F(ChannelPeersTest, OldNumbersAreNeverSomebodyElsesChannel) {
  constexpr std::size_t kChannels = 50'000;
  std::vector<ChannelId> ids(kChannels);
  std::atomic<std::size_t> newest{0};
  std::atomic<std::size_t> opened{0};
  std::atomic<std::size_t> wrong{0};
  std::thread opener([&] {
    for (std::size_t at = 0; at < kChannels;) {
      at = newest;
      if (at == 0 || at >= kChannels) continue;
      Result<ChannelPtr> channel = Channel::open(node().channels(), ids[at]);
      if (!channel) continue;
      ++opened;
      if ((*channel)->flags() != at) ++wrong;
    }
  });
  for (std::size_t i = 1; i < kChannels; ++i) {
    ChannelPtr channel = make_channel({.flags = i});
    ids[i] = channel->id();
    newest = i;
  }
  newest = kChannels;
  opener.join();
  EXPECT_EQ(wrong, 0U) << "of " << opened;
}

}  // namespace
}  // namespace forklift::channel
