// Numbers of a domain, against known amounts.
#include "inspect/survey.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "inspect/objects.h"
#include "locks/mutex.h"
#include "locks/semaphore.h"
#include "support/node_fixture.h"

namespace forklift::inspect {
namespace {

class SurveyTest : public test::NodeFixture {
 protected:
  // What children held that have ended is given back first.
  void TearDown() override {
    domain().reap();
    NodeFixture::TearDown();
  }
  Survey look() { return survey_of(View(domain())); }
  QueueUse queue() {
    const Survey survey = look();
    return survey.queues.size() == 1 ? survey.queues[0] : QueueUse{};
  }
};

TEST_F(SurveyTest, AnEmptyDomainHasOneProcess) {
  const Survey survey = look();
  ASSERT_EQ(survey.processes.size(), 1u);
  EXPECT_EQ(survey.processes[0].pid, ::getpid());
  EXPECT_GT(survey.processes[0].own_bytes, 1u << 20);
  EXPECT_TRUE(survey.queues.empty() && survey.topics.empty() && survey.pools.empty() && survey.locks.empty());
  EXPECT_EQ(survey.domain, domain().header().domain_id);
  EXPECT_EQ(survey.arena.reserved, domain().data_bytes());
}

TEST_F(SurveyTest, CountsTheMessagesOfAQueueFromItsCreation) {
  for (int round = 0; round < 3; ++round) {  // the second one has the first one's row
    const channel::ChannelPtr channel = make_channel({.capacity = 10});
    ASSERT_OK(channel->label().set("frames"));
    const std::uint64_t before = queue().put_bytes;
    for (int i = 0; i < 5; ++i) ASSERT_OK(test::put_text(*channel, "12345678"));
    for (int i = 0; i < 2; ++i) ASSERT_OK(test::get_text(*channel).status());
    const QueueUse use = queue();
    EXPECT_EQ(use.label, "frames");
    EXPECT_EQ(use.put, 5u);
    EXPECT_EQ(use.got, 2u);
    EXPECT_EQ(use.length, 3u);
    EXPECT_EQ(use.capacity, 10u);
    EXPECT_EQ(use.put_bytes - before, 40u);
    EXPECT_EQ(use.holders, std::vector<pid_t>{::getpid()});
    for (int i = 0; i < 3; ++i) ASSERT_OK(test::get_text(*channel).status());
  }
}

TEST_F(SurveyTest, SaysWhoWaitsForAQueue) {
  const channel::ChannelPtr empty = make_channel();
  test::Child child([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)test::get_text(*empty, 60);
  });
  const std::vector<pid_t> expected{child.pid()};
  EXPECT_TRUE(test::eventually([&] { return queue().waiting_to_get == expected; }));
  for (const ProcessUse& each : look().processes) {
    EXPECT_EQ(each.waits_for, each.pid == child.pid() ? "a message in queue 0" : "");
  }
  ASSERT_OK(test::put_text(*empty, "end"));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(queue().waiting_to_get.empty());
}

TEST_F(SurveyTest, CountsTheMemoryThatAProcessHolds) {
  const Survey before = look();
  const arena::LeasePtr block = allocate(arena::Kind::kShare, 1 << 20);
  const Survey after = look();
  EXPECT_EQ(after.processes[0].arena_bytes - before.processes[0].arena_bytes, 1u << 20);
  EXPECT_EQ(after.processes[0].blocks - before.processes[0].blocks, 1u);
  EXPECT_EQ(after.arena.blocks - before.arena.blocks, 1u);
}

TEST_F(SurveyTest, SaysForHowLongOneProcessHasHeldABlock) {
  const arena::LeasePtr block = allocate(arena::Kind::kShare, 1 << 20);
  Holdings holdings;
  const auto held = [&] {
    const Survey survey = survey_of(View(domain()), Holders::kAll, &holdings);
    const auto found = std::find_if(survey.blocks.begin(), survey.blocks.end(), [&](const BlockUse& each) {
      return each.index == block->handle().block;
    });
    return found != survey.blocks.end() ? *found : BlockUse{};
  };
  EXPECT_EQ(held().bytes, 1u << 20);
  EXPECT_EQ(held().process, ::getpid());
  const double seconds = held().held_seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_GT(held().held_seconds, seconds);
  {
    const channel::ChannelPtr channel = make_channel();
    Result<arena::LeasePtr> another = node().arena().another(block);
    ASSERT_OK(another.status());
    ASSERT_OK(channel->put({.leases = {&*another, 1}}, os::Deadline::never()));
    another->reset();
    EXPECT_EQ(held().holder, "2 holders");
    EXPECT_EQ(held().process, 0);
    EXPECT_EQ(held().held_seconds, 0);
  }
  EXPECT_LT(held().held_seconds, seconds);  // it begins anew
}

TEST_F(SurveyTest, ABlockInAMessageIsNobodysAlone) {
  const channel::ChannelPtr channel = make_channel();
  arena::LeasePtr block = allocate(arena::Kind::kShare, 1 << 20);
  ASSERT_OK(channel->put({.leases = {&block, 1}}, os::Deadline::never()));
  block.reset();
  const Survey survey = look();
  ASSERT_FALSE(survey.blocks.empty());
  EXPECT_EQ(survey.blocks[0].holder, "a message in queue " + std::to_string(channel->id().index));
  EXPECT_EQ(survey.blocks[0].process, 0);
}

TEST_F(SurveyTest, SaysWhatElseHasABlock) {
  const channel::ChannelPtr channel = make_channel();
  ASSERT_OK(channel->label().set("frames"));
  const View view(domain());
  const std::uint32_t index = channel->id().index;
  EXPECT_EQ(text_of(view, arena::Holder::message(index, 7)), "a message in queue \"frames\"");
  EXPECT_EQ(text_of(view, arena::Holder::receipt(index, 7)), "a claimed message of queue \"frames\"");
  EXPECT_EQ(text_of(view, arena::Holder::receipts(index)), "queue \"frames\"");
  EXPECT_EQ(text_of(view, arena::Holder::topic(3, 7)), "a message of topic 3");
  EXPECT_EQ(text_of(view, arena::Holder::ring(3)), "topic 3");
  EXPECT_EQ(text_of(view, arena::Holder::name(7)), "a name");
}

TEST_F(SurveyTest, ListsTheLargestBlocks) {
  std::vector<arena::LeasePtr> blocks;
  for (std::size_t i = 1; i <= kMostBlocks + 5; ++i) blocks.push_back(allocate(arena::Kind::kShare, i << 16));
  const Survey survey = look();
  ASSERT_EQ(survey.blocks.size(), kMostBlocks);
  for (std::size_t i = 0; i < kMostBlocks; ++i)
    EXPECT_EQ(survey.blocks[i].bytes, (kMostBlocks + 5 - i) << 16);
}

TEST_F(SurveyTest, SaysWhichLocksAreHeld) {
  Result<locks::MutexPtr> lock = locks::Mutex::create(node().locks(), false);
  ASSERT_OK(lock.status());
  Result<locks::SemaphorePtr> idle = locks::Semaphore::create(node().locks(), {.value = 3});
  ASSERT_OK(idle.status());
  EXPECT_TRUE(look().locks.empty());
  EXPECT_EQ((*lock)->try_acquire(), locks::Took::kYes);
  const Survey survey = look();
  ASSERT_EQ(survey.locks.size(), 1u);
  EXPECT_EQ(survey.locks[0].kind, "Lock");
  EXPECT_EQ(survey.locks[0].owner, ::getpid());
  (*lock)->release();
  EXPECT_TRUE(look().locks.empty());
}

}  // namespace
}  // namespace forklift::inspect
