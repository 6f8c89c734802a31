// Rights: inherited over forks, checked when they arrive, never given up twice; and that the audit sees what
// is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;
using test::Child;
using test::Gate;
using testing::HasSubstr;

class LedgerTest : public test::NodeFixture {
 protected:
  LedgerTest() = default;
  explicit LedgerTest(const domain::Options& options) : NodeFixture(options) {}

  std::uint64_t leases() { return arena().stats().leases; }
  BlockRow& block_row(std::uint32_t index) {
    return reinterpret_cast<BlockRow*>(domain().region(domain::Region::kBlocks).data())[index];
  }
  LeaseRow& lease_row(std::uint32_t index) {
    return reinterpret_cast<LeaseRow*>(domain().region(domain::Region::kLeases).data())[index];
  }
};

TEST_F(LedgerTest, TwoThousandBlocksPassToAChild) {
  constexpr std::size_t kBlocks = 2000;
  std::vector<LeasePtr> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(allocate(Kind::kShare, 4096));
    std::memcpy(blocks[i]->data(), &i, sizeof i);
  }
  Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    for (std::size_t i = 0; i < kBlocks; ++i) {
      std::size_t seen = 0;
      std::memcpy(&seen, blocks[i]->data(), sizeof seen);
      ASSERT_EQ(seen, i);
      ASSERT_TRUE(blocks[i]->held());
      if (i % 2) blocks[i].reset();
    }
    EXPECT_EQ(leases(), kBlocks / 2);
  });
  EXPECT_EQ(leases(), 2 * kBlocks);
  EXPECT_EQ(audit_of(node()), "");
  blocks.clear();
  EXPECT_EQ(leases(), kBlocks);
  for (int i = 0; i < 50; ++i) {  // reuse whatever could wrongly be free
    LeasePtr other = allocate(Kind::kShare, 4096);
    std::memset(other->data(), 0xff, 4096);
  }
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(leases(), 0U);
}

TEST_F(LedgerTest, AWrongHandleIsNamedAndChangesNothing) {
  const Holder message = Holder::message(7, 123);
  LeasePtr sent = allocate(Kind::kShare, 5000);
  LeasePtr other = allocate(Kind::kShare, 5000);
  const Handle right = sent->handle();
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(right, message));  // not sent yet
  arena().give(*sent, message);
  EXPECT_FALSE(sent->held());
  EXPECT_OK(arena().ledger().check(right, message));

  const std::vector<std::pair<const char*, std::function<void(Handle&)>>> wrong = {
      {"no such named segment", [](Handle& h) { h.segment = arena::kNamedSegment; }},
      {"no such piece of a memory pool", [](Handle& h) { h.segment = arena::kPoolPiece; }},
      {"no such segment", [](Handle& h) { h.segment = 3; }},
      {"no such block", [](Handle& h) { h.block = 0xffffffff; }},
      {"no such block",
       [&](Handle& h) { h.block = static_cast<std::uint32_t>(arena().ledger().state().blocks_used); }},
      {"no such lease", [](Handle& h) { h.lease = 0xffffffff; }},
      {"no such lease",
       [&](Handle& h) { h.lease = static_cast<std::uint32_t>(arena().ledger().state().leases_used); }},
      {"another generation", [](Handle& h) { ++h.generation; }},
      {"another generation", [](Handle& h) { --h.generation; }},
      {"the offset", [](Handle& h) { h.offset += 64; }},
      {"the offset", [](Handle& h) { h.offset = ~std::uint64_t{0}; }},
      {"the length", [](Handle& h) { h.length = 0; }},
      {"the length", [](Handle& h) { h.length = 8193; }},
      {"the length", [](Handle& h) { h.length = ~std::uint64_t{0}; }},
      {"something else", [&](Handle& h) { h.lease = other->handle().lease; }},
      {"not this message's", [&](Handle& h) { h = other->handle(); }},
  };
  for (const auto& [why, spoil] : wrong) {
    Handle handle = right;
    spoil(handle);
    const Status status = arena().ledger().check(handle, message);
    EXPECT_CODE(Code::kCorrupt, status) << why;
    EXPECT_THAT(std::string(status.what()), HasSubstr(why));
  }
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(right, Holder::message(7, 124)));
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(right, Holder::message(8, 123)));
  EXPECT_OK(arena().ledger().check(right, message));
  EXPECT_EQ(leases(), 2U);
  EXPECT_EQ(audit_of(node()), "");

  arena().ledger().take(right);
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(right, message));  // taken: a second taker finds nothing
  const LeasePtr received = arena().materialise(right);
  EXPECT_EQ(received->data(), sent->data());
  EXPECT_TRUE(received->held());
}

TEST_F(LedgerTest, AHandleOfAFreedBlockIsStale) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  const Handle old = block->handle();
  block.reset();
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(old, Holder::message(1, 1)));
  block = allocate(Kind::kShare, 5000);  // the same block and row again
  EXPECT_EQ(block->handle().offset, old.offset);
  arena().give(*block, Holder::message(1, 1));
  EXPECT_CODE(Code::kCorrupt, arena().ledger().check(old, Holder::message(1, 1)));
  arena().ledger().release_held_by(Holder::message(1, 1));
}

TEST_F(LedgerTest, AnOfferedBlockIsClaimedOnceByTheOneItWasOfferedTo) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  std::memset(block->data(), 7, 5000);
  const Result<Handle> offered = arena().offer(block, domain().self());
  ASSERT_TRUE(offered.ok());
  EXPECT_EQ(arena().holders(*block), 2U);
  Handle wrong = *offered;
  wrong.lease = block->handle().lease;  // held, but not offered
  EXPECT_EQ(arena().claim(wrong).code(), Code::kInvalid);
  wrong = *offered;
  ++wrong.generation;
  EXPECT_EQ(arena().claim(wrong).code(), Code::kCorrupt);
  wrong = *offered;
  wrong.lease = 1'000'000;
  EXPECT_EQ(arena().claim(wrong).code(), Code::kCorrupt);
  Result<LeasePtr> claimed = arena().claim(*offered);
  ASSERT_TRUE(claimed.ok());
  EXPECT_EQ((*claimed)->data(), block->data());
  EXPECT_EQ((*claimed)->size(), 5000U);
  EXPECT_EQ(arena().claim(*offered).code(), Code::kInvalid);
  block.reset();
  EXPECT_EQ(leases(), 1U);
  EXPECT_EQ(std::to_integer<int>((*claimed)->data()[4999]), 7);
  EXPECT_EQ(audit_of(node()), "");
  claimed->reset();
  EXPECT_EQ(leases(), 0U);
  EXPECT_EQ(arena().claim(*offered).code(), Code::kCorrupt);
}

TEST_F(LedgerTest, AnOfferThatNobodyClaimsGoesWithItsSlot) {
  const LeasePtr block = allocate(Kind::kShare, 5000);
  Gate go;
  Child child([&] { ASSERT_TRUE(go.wait()); });
  EXPECT_EQ(leases(), 2U);  // the child's by inheritance
  domain::SlotRef slot = domain().self();
  for (std::uint32_t row = 0; row < 2; ++row) {
    const std::uint64_t holder = lease_row(row).holder.load();
    if (holder != Holder::process(slot).word) {
      slot = {static_cast<std::uint32_t>((holder >> 32) & 0x3fffffff), static_cast<std::uint32_t>(holder)};
      break;
    }
  }
  ASSERT_TRUE(arena().offer(block, slot).ok());
  EXPECT_EQ(leases(), 3U);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(leases(), 1U);
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(LedgerTest, ARightIsGivenUpOnce) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  const std::uint32_t row = block->handle().lease;
  arena().give(*block, Holder::message(1, 1));
  block.reset();  // gives nothing up: the right is the message's
  EXPECT_EQ(leases(), 1U);
  arena().ledger().release_row(row, Holder::message(1, 2));  // somebody else's
  arena().ledger().release_row(row, Holder::process(domain().self()));
  EXPECT_EQ(leases(), 1U);
  arena().ledger().release_row(row, Holder::message(1, 1));
  EXPECT_EQ(leases(), 0U);
  arena().ledger().release_row(row, Holder::message(1, 1));  // nothing is there any more
  arena().ledger().release_held_by(Holder::message(1, 1));
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(LedgerTest, AHolderGivesUpAllItHoldsAndNothingElse) {
  std::vector<LeasePtr> blocks;
  for (std::uint32_t i = 0; i < 30; ++i) {
    blocks.push_back(allocate(Kind::kShare, 100));
    arena().give(*blocks.back(), Holder::message(i % 3, 9));
  }
  arena().ledger().release_held_by(Holder::message(1, 9));
  EXPECT_EQ(leases(), 20U);
  EXPECT_EQ(arena().ledger().rows_of(Holder::message(0, 9), ObjectKind::kBlock).size(), 10U);
  EXPECT_EQ(arena().ledger().rows_of(Holder::message(1, 9), ObjectKind::kBlock).size(), 0U);
  EXPECT_EQ(arena().ledger().rows_of(Holder::message(2, 9), ObjectKind::kChannel).size(), 0U);
  EXPECT_EQ(audit_of(node()), "");
  arena().ledger().release_held_by(Holder::message(0, 9));
  arena().ledger().release_held_by(Holder::message(2, 9));
}

TEST_F(LedgerTest, HoldersAreToldApart) {
  EXPECT_TRUE(Holder::process({3, 4}).is_process());
  EXPECT_FALSE(Holder::process({3, 4}).is_message());
  EXPECT_TRUE(Holder::message(3, 4).is_message());
  EXPECT_EQ(Holder::message(0xabcdef, 0x3fffffff).channel(), 0xabcdefU);
  EXPECT_EQ(Holder::message(3, 5).word, Holder::message(3, 5 + (1U << 30)).word);
  EXPECT_NE(Holder::process({3, 4}).word, Holder::process({3, 5}).word);
  const Object object{ObjectKind::kChannel, 0xffffffff};
  EXPECT_EQ(Object::unpack(object.pack()).index, object.index);
  EXPECT_EQ(Object::unpack(object.pack()).kind, object.kind);
}

// An owner that was killed behind its record's count: the next one at the lock completes the change.
TEST_F(LedgerTest, TheNextAtTheLockCompletesWhatADeadOwnerCommitted) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  Word& target = block_row(block->handle().block).length;
  Gate forked;  // else the fork itself may find the child dead, and its reaper is the next one at the lock
  Child child([&] {
    if (!forked.wait()) return;
    Status why;
    ASSERT_NE(arena().ledger().state().mutex.lock(&why), sync::RobustMutex::Acquired::kFailed);
    sync::RedoRecord& record = arena().ledger().state().redo[3];
    record.entries[0] = {static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&target) - domain().base()),
                         4242};
    record.count = 1;
    ::kill(::getpid(), SIGKILL);
  });
  forked.open();
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_EQ(target, 5000U);
  (void)allocate(Kind::kShare, 64);
  EXPECT_EQ(target, 4242U);
  EXPECT_EQ(arena().ledger().state().redo[3].count, 0U);
  domain().reap();
}

TEST_F(LedgerTest, TheAuditSeesDamage) {
  LeasePtr held = allocate(Kind::kShare, 5000);
  LeasePtr freed = allocate(Kind::kShare, 5000);
  const std::uint32_t free_block = freed->handle().block;
  const std::uint32_t free_row = freed->handle().lease;
  freed.reset();
  BlockRow& block = block_row(held->handle().block);
  LeaseRow& right = lease_row(held->handle().lease);
  ASSERT_EQ(audit_of(node()), "");
  const std::vector<std::pair<const char*, std::pair<Word*, std::uint64_t>>> damage = {
      {"A1: block", {&block.count, 2}},
      {"A2: block", {&block.count, 0}},
      {"A3: lease", {&right.holder, 0}},
      {"A3: lease", {&right.object, Object{ObjectKind::kBlock, 0xffffff}.pack()}},
      {"lease rows", {&right.object, 0}},
      {"is free and held", {&lease_row(free_row).object, right.object}},
      {"A2: block", {&block_row(free_block).prev, 77}},
      {"A2: block", {&block_row(free_block).meta, block.meta}},
      {"A4: committed", {&block.committed, block.committed + 4096}},
      {"A4: cached", {&arena().ledger().state().cached, 1}},
      {"A4: committed", {&arena().ledger().state().committed, 1}},
      {"A5: a gap or overlap", {&block.offset, block.offset + 8192}},
      {"is not aligned", {&block.offset, block.offset + 64}},
      {"A5: block", {&block.start, 4096}},
      {"A5: 0 unused block rows", {&arena().ledger().state().block_rows_free, 1}},
  };
  for (const auto& [finding, what] : damage) {
    const std::uint64_t good = what.first->exchange(what.second);
    EXPECT_THAT(audit_of(node()), HasSubstr(finding));
    what.first->store(good);
    ASSERT_EQ(audit_of(node()), "") << finding;
  }
}

class FullLedgerTest : public LedgerTest {
 protected:
  FullLedgerTest() : LedgerTest(test::kTinyDomain) {}
};

TEST_F(FullLedgerTest, AFullLeaseTableSaysSoAndRecovers) {
  const std::size_t rows = domain().region(domain::Region::kLeases).size() / sizeof(LeaseRow);
  LeasePtr block = allocate(Kind::kShare, 64);
  std::vector<LeasePtr> all;
  for (std::size_t i = 1; i < rows; ++i) {
    Result<LeasePtr> one = arena().another(block);
    ASSERT_OK(one);
    ASSERT_OK(arena().separate(*one));
    all.push_back(*std::move(one));
  }
  {
    Result<LeasePtr> shared = arena().another(block);
    ASSERT_OK(shared);
    EXPECT_CODE(Code::kNoSpace, arena().separate(*shared));
    EXPECT_TRUE((*shared)->held());
  }
  EXPECT_CODE(Code::kNoSpace, arena().allocate(Kind::kShare, 64));
  EXPECT_CODE(Code::kNoSpace, channel::Channel::create(node().channels(), {}));
  EXPECT_EQ(arena().trim(0), 0U);
  EXPECT_EQ(audit_of(node()), "");
  {
    // There is no room for a child's rights: it knows that it holds nothing.
    Child child([&] {
      EXPECT_TRUE(domain().attached());
      EXPECT_FALSE(block->held());
      EXPECT_CODE(Code::kInvalid, arena().another(block));
    });
    EXPECT_EQ(child.wait(), 0);
  }
  all.resize(all.size() / 2);
  EXPECT_OK(arena().allocate(Kind::kShare, 64));
  EXPECT_EQ(audit_of(node()), "");
  domain().reap();
}

}  // namespace
}  // namespace forklift::arena
