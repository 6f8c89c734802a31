// What happens when a repair or a reap cannot be finished at once, because a lock that it needs is stuck: it
// is remembered and finished later; nothing is forgotten.
#include <gtest/gtest.h>

#include "support/node_fixture.h"

namespace forklift::channel {
namespace {

using arena::Holder;
using arena::Kind;
using test::get_text;
using test::put_text;

class RepairTest : public test::NodeFixture {};

TEST_F(RepairTest, ABrokenTailIsRepairedBeforeTheNextPut) {
  const ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "before"));
  ChannelRow& row = *node().channels().row(channel->id().index);
  // A putter died after its lease had changed hands and before the commit, and its repairer could not sweep.
  arena::LeasePtr stray = allocate(Kind::kShare, 4096);
  arena().give(*stray, Holder::message(channel->id().index, Position::unpack(row.tail.load()).sequence()));
  stray.reset();
  row.put_tail.store(0);  // as its repairer did first
  row.tail_state.store(kTailBroken);
  EXPECT_EQ(arena().stats().held_blocks, 1U);

  ASSERT_OK(put_text(*channel, "after"));
  EXPECT_EQ(row.tail_state.load(), 0U);
  EXPECT_EQ(arena().stats().held_blocks, 0U);
  EXPECT_EQ(*get_text(*channel), "before");
  EXPECT_EQ(*get_text(*channel), "after");
}

TEST_F(RepairTest, ABrokenHeadIsRepairedBeforeTheNextGet) {
  const ChannelPtr channel = make_channel();
  ASSERT_OK(put_text(*channel, "one"));
  ASSERT_OK(put_text(*channel, "two"));
  ASSERT_EQ(*get_text(*channel), "one");
  ChannelRow& row = *node().channels().row(channel->id().index);
  arena::LeasePtr stray = allocate(Kind::kPrivate, 4096);
  arena().give(*stray,
               Holder::message(channel->id().index, Position::unpack(row.head.load()).sequence() - 1));
  stray.reset();
  row.head_broken.store(1);

  EXPECT_EQ(*get_text(*channel), "two");
  EXPECT_EQ(row.head_broken.load(), 0U);
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

TEST_F(RepairTest, ASlotThatCannotBeReapedYetIsReapedLater) {
  bool stuck = true;
  domain().on_reap([&](domain::SlotRef, bool) { return !stuck; });
  Result<domain::ChildSlot> child = domain().reserve_child();
  ASSERT_OK(child);
  child->lock.close();  // the child never came
  EXPECT_EQ(domain().reap(), 0U);
  EXPECT_EQ(domain().live_slots(), 2U);
  stuck = false;
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(domain().live_slots(), 1U);
}

}  // namespace
}  // namespace forklift::channel
