// Blocks that a process keeps for its next allocations, and the depots through which others get them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;
using test::Child;
using test::Gate;
using testing::HasSubstr;

constexpr std::size_t kBytes = 1000;
constexpr unsigned kClass = 10;
constexpr std::size_t kBatch = Magazine::batch(kClass);

class KeptTest : public test::NodeFixture {
 protected:
  std::uint64_t leases() { return arena().stats().leases; }
  BlockRow& block_row(std::uint32_t index) {
    return reinterpret_cast<BlockRow*>(domain().region(domain::Region::kBlocks).data())[index];
  }
  LeaseRow& lease_row(std::uint32_t index) {
    return reinterpret_cast<LeaseRow*>(domain().region(domain::Region::kLeases).data())[index];
  }
  BlockState state_of(const Handle& handle) {
    return BlockMeta::unpack(block_row(handle.block).meta.load()).state;
  }
  Depot& depot() { return arena().ledger().state().depots[0][kClass - kSmallestClass]; }
  // A class keeps blocks when some were given up.
  void warm_up() {
    for (int i = 0; i < 40; ++i) (void)allocate(Kind::kShare, kBytes);
  }
  std::vector<LeasePtr> many(std::size_t count) {
    std::vector<LeasePtr> blocks;
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(allocate(Kind::kShare, kBytes));
    return blocks;
  }
};

TEST_F(KeptTest, WhatIsGivenUpSteadilyIsKeptAndFoundAgain) {
  LeasePtr block = allocate(Kind::kShare, kBytes);
  Handle first = block->handle();
  block.reset();
  EXPECT_EQ(state_of(first), BlockState::kFree);  // once is not steadily
  warm_up();
  block = allocate(Kind::kShare, kBytes);
  first = block->handle();
  block.reset();
  EXPECT_EQ(state_of(first), BlockState::kKept);
  EXPECT_EQ(audit_of(node()), "");
  block = allocate(Kind::kShare, 700);  // of the same class
  EXPECT_EQ(block->handle().offset, first.offset);
  EXPECT_EQ(block->handle().lease, first.lease);
  EXPECT_NE(block->handle().generation, first.generation);
  EXPECT_EQ(block->size(), 700U);
  EXPECT_EQ(block_row(first.block).length.load(), 700U);
  EXPECT_EQ(state_of(first), BlockState::kHeld);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(KeptTest, WhatIsKeptCountsAsNobodys) {
  const Stats before = arena().stats();
  warm_up();
  std::vector<LeasePtr> blocks = many(3 * kBatch);
  EXPECT_EQ(leases(), before.leases + 3 * kBatch);
  blocks.clear();
  const Stats after = arena().stats();
  EXPECT_EQ(after.leases, before.leases);
  EXPECT_EQ(after.held_blocks, before.held_blocks);
  EXPECT_EQ(after.committed_bytes - after.cached_bytes, before.committed_bytes - before.cached_bytes);
}

TEST_F(KeptTest, AHandleOfAKeptBlockIsStale) {
  warm_up();
  LeasePtr block = allocate(Kind::kShare, kBytes);
  const Handle old = block->handle();
  block.reset();
  const Status status = arena().ledger().check(old, Holder::process(domain().self()));
  EXPECT_CODE(Code::kCorrupt, status);
  EXPECT_THAT(std::string(status.what()), HasSubstr("not in use"));
  block = allocate(Kind::kShare, kBytes);
  ASSERT_EQ(block->handle().block, old.block);
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(old, Holder::process(domain().self())));
}

TEST_F(KeptTest, OnlyTheLastHolderKeeps) {
  warm_up();
  LeasePtr block = allocate(Kind::kShare, kBytes);
  const Handle handle = block->handle();
  Result<LeasePtr> second = arena().another(block);
  ASSERT_OK(second);
  block.reset();
  EXPECT_EQ(state_of(handle), BlockState::kHeld);
  EXPECT_EQ(leases(), 1U);
  second->reset();
  EXPECT_EQ(state_of(handle), BlockState::kKept);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(KeptTest, KeptMemoryIsZeroedWhereAsked) {
  warm_up();
  LeasePtr block = allocate(Kind::kShare, kBytes);
  const std::uint64_t offset = block->handle().offset;
  std::memset(block->data(), 0xff, kBytes);
  block.reset();
  block = *arena().allocate(Kind::kShare, kBytes, true);
  ASSERT_EQ(block->handle().offset, offset);
  EXPECT_EQ(std::count(block->data(), block->data() + kBytes, std::byte{0}), static_cast<int>(kBytes));
}

// Pages that were never booked are booked by the ledger only.
TEST_F(KeptTest, ABlockWithTooFewPagesIsNotReused) {
  for (int i = 0; i < 40; ++i) (void)allocate(Kind::kShare, 5 * 4096);
  const LeasePtr large = allocate(Kind::kShare, 8 * 4096);
  EXPECT_GE(block_row(large->handle().block).committed.load(), 8 * 4096U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(KeptTest, AFullShelfPassesHalfOnAndOthersFindIt) {
  warm_up();
  std::vector<LeasePtr> blocks = many(4 * kBatch);
  std::set<std::uint64_t> ours;
  for (const LeasePtr& block : blocks) ours.insert(block->handle().offset);
  blocks.clear();
  EXPECT_EQ(depot().top.load(), 2 * kBatch);
  EXPECT_EQ(audit_of(node()), "");
  Child child([&] {
    // Its magazine is empty: that is its parent's.
    const std::vector<LeasePtr> found = many(kBatch + 1);
    for (const LeasePtr& block : found) EXPECT_TRUE(ours.contains(block->handle().offset));
    EXPECT_EQ(depot().top.load(), 0U);
    EXPECT_EQ(audit_of(node()), "");
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(leases(), 0U);
}

TEST(MagazineTest, WhoOnlyGivesPassesOnABatchAndWhoTakesTooKeepsTwo) {
  Magazine magazine;
  const auto put = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) magazine.put(Kind::kShare, kClass, {0, 0, 0, 0, 4096});
  };
  Batch out;
  for (int round = 0; round < 3; ++round) {
    put(kBatch - 1);
    EXPECT_FALSE(magazine.full(Kind::kShare, kClass));
    put(1);
    ASSERT_TRUE(magazine.full(Kind::kShare, kClass));
    magazine.clear_half(Kind::kShare, kClass, out);
    EXPECT_EQ(out.count, kBatch);
    EXPECT_EQ(magazine.bytes(), 0U);
  }
  put(kBatch);
  CachedBlock kept;
  ASSERT_TRUE(magazine.take(Kind::kShare, kClass, 4096, kept));
  put(kBatch);
  EXPECT_FALSE(magazine.full(Kind::kShare, kClass));
  put(1);
  ASSERT_TRUE(magazine.full(Kind::kShare, kClass));
  magazine.clear_half(Kind::kShare, kClass, out);
  EXPECT_EQ(magazine.bytes(), kBatch * 4096);
}

TEST(MagazineTest, LargeBlocksChangeHandsOneByOne) {
  EXPECT_EQ(Magazine::batch(10), Batch::kMost);
  EXPECT_EQ(Magazine::batch(19), Batch::kMost);
  EXPECT_EQ(Magazine::batch(20), 1U);
  EXPECT_EQ(Magazine::batch(kLargestKept), 1U);
}

TEST_F(KeptTest, WhatAKilledProcessKeptGoesBack) {
  Gate kept;
  Child child([&] {
    warm_up();
    many(3 * kBatch).clear();
    kept.open();
    ::pause();
  });
  ASSERT_TRUE(kept.wait());
  EXPECT_EQ(audit_of(node()), "");
  const std::uint64_t free_before = arena().stats().cached_bytes;
  ::kill(child.pid(), SIGKILL);
  EXPECT_EQ(child.wait(), -SIGKILL);
  domain().reap();
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(arena().stats().cached_bytes, free_before);
  EXPECT_EQ(arena().ledger().state().cached.load() + depot().top.load() * (1U << kClass), free_before);
}

TEST_F(KeptTest, TrimmingGivesKeptBlocksBack) {
  warm_up();
  many(4 * kBatch).clear();
  EXPECT_GT(depot().top.load(), 0U);
  for (int i = 0; i < 40; ++i) (void)allocate(Kind::kPrivate, 100'000);
  EXPECT_GT(arena().trim(0), 0U);
  EXPECT_EQ(depot().top.load(), 0U);
  const Stats after = arena().stats();
  EXPECT_EQ(after.cached_bytes, arena().ledger().state().cached.load());
  EXPECT_EQ(audit_of(node()), "");
}

// Between a taker's two stores, and between a putter's last two.
TEST_F(KeptTest, ACellThatADeadTakerOrPutterLeftIsSetRight) {
  warm_up();
  many(4 * kBatch).clear();
  const std::uint64_t top = depot().top.load();
  ASSERT_EQ(top, 2 * kBatch);
  Child taker([&] {
    Status why;
    ASSERT_NE(depot().mutex.lock(&why), sync::RobustMutex::Acquired::kFailed);
    const auto row = static_cast<std::uint32_t>(depot().cells[top - 1].load());
    lease_row(row).holder.store(Holder::process(domain().self()).word);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(taker.wait(), -SIGKILL);
  domain().reap();
  EXPECT_EQ(audit_of(node()), "");
  Gate forked;
  Child putter([&] {
    if (!forked.wait()) return;
    Status why;
    ASSERT_NE(depot().mutex.lock(&why), sync::RobustMutex::Acquired::kFailed);
    depot().top.store(top - 2);  // as if the last good cell had just been put
    ::kill(::getpid(), SIGKILL);
  });
  forked.open();
  EXPECT_EQ(putter.wait(), -SIGKILL);
  domain().reap();
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_EQ(depot().top.load(), top - 1);
  (void)arena().trim(0);
  EXPECT_EQ(depot().top.load(), 0U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(KeptTest, WhatIsWrongInACellIsPassed) {
  warm_up();
  many(4 * kBatch).clear();
  ASSERT_EQ(depot().top.load(), 2 * kBatch);
  const std::uint64_t good = depot().cells[0].exchange(0xffffffffffffffff);
  EXPECT_THAT(audit_of(node()), HasSubstr("A6"));
  depot().cells[0].store(good);
  const std::uint64_t lost = depot().cells[2 * kBatch - 1].exchange(0xffffffffffffffff);
  Child child([&] { EXPECT_EQ(many(kBatch).size(), kBatch); });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(depot().top.load(), kBatch - 1);
  const Holder there = Holder::depot(depot_number(Kind::kShare, kClass), 2 * kBatch - 1);
  EXPECT_TRUE(arena().ledger().release_row(static_cast<std::uint32_t>(lost), there));
}

TEST_F(KeptTest, TheAuditSeesAKeptBlockOfAMessage) {
  warm_up();
  LeasePtr block = allocate(Kind::kShare, kBytes);
  const Handle handle = block->handle();
  block.reset();
  ASSERT_EQ(state_of(handle), BlockState::kKept);
  const std::uint64_t good = lease_row(handle.lease).holder.exchange(Holder::message(1, 1).word);
  EXPECT_THAT(audit_of(node()), HasSubstr("A6: block"));
  lease_row(handle.lease).holder.store(good);
  EXPECT_EQ(audit_of(node()), "");
}

}  // namespace
}  // namespace forklift::arena
