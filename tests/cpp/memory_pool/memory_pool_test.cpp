// Pools and their pieces: sharing, travelling, coming back, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/pool_fixture.h"
#include "topic/topic.h"

namespace forklift::test {
namespace {

using arena::Handle;
using arena::LeasePtr;
using memory_pool::PieceInfo;
using os::Deadline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class MemoryPool : public PoolFixture {};

TEST_F(MemoryPool, APieceIsDescribed) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  EXPECT_EQ(pools().bytes(), kPoolBytes);
  {
    const LeasePtr piece = share(*pool, 4096, 512);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->size(), 512U);
    EXPECT_EQ(piece->data(), nullptr);
    const Result<PieceInfo> info = pools().describe(*piece);
    ASSERT_OK(info);
    EXPECT_EQ(info->pool, pool->ref);
    EXPECT_EQ(info->offset, 4096U);
    EXPECT_EQ(info->bytes, 512U);
    EXPECT_EQ(info->pool_bytes, kPoolBytes);
    EXPECT_EQ(info->device, kDevice);
    const LeasePtr block = allocate(arena::Kind::kShare, 100);
    EXPECT_EQ(pools().describe(*block).code(), Code::kInvalid);
  }
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, PutAndGetInOneProcessImportsNothing) {
  const channel::ChannelPtr queue = make_channel();
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  send(queue, share(*pool, 64, 100));
  int imports = 0;
  {
    const LeasePtr got = receive(queue);
    ASSERT_TRUE(got);
    EXPECT_EQ(open_piece(node(), *got, &imports), pool->memory->at(64));
  }
  EXPECT_EQ(imports, 0);
  EXPECT_THAT(returned(*pool), ElementsAre("64+100"));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, APieceComesBackWithItsLastLease) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  EXPECT_FALSE(pools().has_returned(pool->ref));
  LeasePtr first = share(*pool, 0, 100);
  LeasePtr again = share(*pool, 0, 100);
  LeasePtr third = *arena().another(again);
  EXPECT_EQ(first->handle().block, again->handle().block);
  EXPECT_EQ(pools().live_pieces(), 1U);
  first.reset();
  again.reset();
  EXPECT_FALSE(pools().has_returned(pool->ref));
  EXPECT_THAT(returned(*pool), IsEmpty());
  third.reset();
  EXPECT_TRUE(pools().has_returned(pool->ref));
  EXPECT_THAT(returned(*pool), ElementsAre("0+100"));
  EXPECT_FALSE(pools().has_returned(pool->ref));
  EXPECT_EQ(pools().live_pieces(), 0U);
  // The range is free for other pieces.
  first = share(*pool, 50, 10);
  EXPECT_TRUE(first);
  first.reset();
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, APieceThatIsSharedAgainBeforeTheVisitStays) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr other = share(*pool, 1000, 10);
  LeasePtr lease = share(*pool, 0, 100);
  const Handle first = lease->handle();
  lease.reset();
  EXPECT_TRUE(pools().has_returned(pool->ref));
  lease = share(*pool, 0, 100);
  EXPECT_EQ(lease->handle().block, first.block);
  EXPECT_EQ(lease->handle().generation, first.generation);
  other.reset();
  EXPECT_THAT(returned(*pool), ElementsAre("1000+10"));
  EXPECT_EQ(pools().live_pieces(), 1U);
  lease.reset();
  EXPECT_THAT(returned(*pool), ElementsAre("0+100"));
  // Once more, twice into the list without a visit.
  for (int i = 0; i < 2; ++i) lease = share(*pool, 0, 100), lease.reset();
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_THAT(returned(*pool), ElementsAre("0+100"));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, RefusesWhatIsNoPiece) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  const auto code = [&](std::uint64_t offset, std::uint64_t bytes) {
    return pools().share(pool->ref, offset, bytes).code();
  };
  EXPECT_EQ(code(0, 0), Code::kInvalid);
  EXPECT_EQ(code(0, kPoolBytes + 1), Code::kInvalid);
  EXPECT_EQ(code(kPoolBytes, 1), Code::kInvalid);
  EXPECT_EQ(code(~std::uint64_t{0}, 2), Code::kInvalid);
  EXPECT_EQ(code(1, ~std::uint64_t{0}), Code::kInvalid);
  const LeasePtr whole = share(*pool, 1000, 1000);
  EXPECT_EQ(code(1000, 999), Code::kInvalid);
  EXPECT_EQ(code(999, 2), Code::kInvalid);
  EXPECT_EQ(code(1999, 1), Code::kInvalid);
  EXPECT_EQ(code(0, kPoolBytes), Code::kInvalid);
  EXPECT_OK(pools().share(pool->ref, 2000, 1));
  EXPECT_OK(pools().share(pool->ref, 999, 1));
  EXPECT_EQ(pools().enter(os::Fd(), 100, kDevice, nullptr).code(), Code::kInvalid);
  EXPECT_EQ(pools().share({pool->ref.index, pool->ref.generation + 1}, 0, 1).code(), Code::kInvalid);
  Child other([&] {
    EXPECT_EQ(code(5000, 1), Code::kInvalid);  // a forked child owns nothing
    EXPECT_EQ(pools().leave(pool->ref).code(), Code::kInvalid);
  });
  EXPECT_EQ(other.wait(), 0);
  ASSERT_OK(pools().leave(pool->ref));
  EXPECT_EQ(pools().leave(pool->ref).code(), Code::kInvalid);
  EXPECT_EQ(pools().visit_returned(pool->ref, [](std::uint64_t, std::uint64_t) {}).code(), Code::kInvalid);
}

TEST_F(MemoryPool, AStaleHandleIsAnError) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr lease = share(*pool, 0, 100);
  const Handle handle = lease->handle();
  const auto check = [&](const Handle& said) {
    return arena().ledger().check(said, arena::Holder::process(domain().self()));
  };
  EXPECT_OK(check(handle));
  for (const auto& change : std::vector<std::function<void(Handle&)>>{
           [](Handle& h) { ++h.generation; }, [](Handle& h) { ++h.length; }, [](Handle& h) { h.block = 77; },
           [](Handle& h) { h.block = ~0U; }, [](Handle& h) { h.segment = arena::kNamedSegment; },
           [](Handle& h) { h.segment = 3; }}) {
    Handle wrong = handle;
    change(wrong);
    EXPECT_EQ(check(wrong).code(), Code::kCorrupt);
  }
  // Where the piece lies is what its row says, whatever a handle says.
  Handle elsewhere = handle;
  elsewhere.offset = kPoolBytes;
  EXPECT_OK(check(elsewhere));
  EXPECT_EQ(pools().describe(*lease)->offset, 0U);
  lease.reset();
  EXPECT_THAT(returned(*pool), SizeIs(1));
  lease = share(*pool, 200, 100);  // in the same row
  EXPECT_EQ(lease->handle().block, handle.block);
  EXPECT_EQ(check(handle).code(), Code::kCorrupt);
  EXPECT_EQ(pools().take_up(handle.block, handle.generation).code(), Code::kInvalid);
  lease.reset();
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, TravelsInAMessageThatIsSpilledAndInTopics) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  const channel::ChannelPtr queue = make_channel();
  LeasePtr lease = share(*pool, 128, 100);
  ASSERT_OK(queue->put({.bytes = bytes_of(std::string(20'000, 'x')), .leases = {&lease, 1}},
                       Deadline::after_seconds(10)));
  {
    const LeasePtr got = receive(queue);
    ASSERT_TRUE(got);
    EXPECT_EQ(open_piece(node(), *got), pool->memory->at(128));
  }
  EXPECT_THAT(returned(*pool), SizeIs(1));
  {
    const auto topic = topic::Topic::create(node_->topics(), {.capacity = 4});
    ASSERT_OK(topic);
    const auto reader = (*topic)->subscribe();
    ASSERT_OK(reader);
    LeasePtr sent = share(*pool, 256, 100);
    ASSERT_OK((*topic)->put({.leases = {&sent, 1}}, Deadline::after_seconds(10)));
    channel::Incoming message;
    ASSERT_OK((*reader)->get(message, Deadline::after_seconds(10)));
    ASSERT_THAT(message.leases(), SizeIs(1));
    EXPECT_EQ(open_piece(node(), *message.leases()[0]), pool->memory->at(256));
  }
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, AMessageThatNobodyReadsGivesItBack) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  channel::ChannelPtr queue = make_channel();
  send(queue, share(*pool, 0, 100));
  EXPECT_FALSE(pools().has_returned(pool->ref));
  queue.reset();
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, IsOfferedAndPublished) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr lease = share(*pool, 64, 100);
  const Handle handle = lease->handle();
  ASSERT_OK(node().names().publish("weights", {lease->object(), handle.generation, 0, {}}));
  const Result<Handle> offered = arena().offer(lease, domain().self());
  ASSERT_OK(offered);
  lease.reset();
  {
    const Result<LeasePtr> claimed = arena().claim(*offered);
    ASSERT_OK(claimed);
    EXPECT_EQ(open_piece(node(), **claimed), pool->memory->at(64));
    EXPECT_EQ(arena().claim(*offered).code(), Code::kInvalid);
  }
  EXPECT_FALSE(pools().has_returned(pool->ref));
  {
    const auto found = node().names().find("weights");
    ASSERT_OK(found);
    const Result<LeasePtr> held = pools().take_up(found->object.index, found->generation);
    ASSERT_OK(held);
    EXPECT_EQ(open_piece(node(), **held), pool->memory->at(64));
  }
  EXPECT_FALSE(pools().has_returned(pool->ref));
  ASSERT_OK(node().names().unpublish("weights"));
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, AForkedChildHoldsWhatItsParentHeld) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr lease = share(*pool, 0, 100);
  Gate dropped;
  Gate looked;
  Child child([&] {
    EXPECT_EQ(pool_files_of(::getpid()), 0U);
    EXPECT_TRUE(dropped.wait());
    EXPECT_EQ(open_piece(node(), *lease), pool->memory->at(0));
    EXPECT_OK(pools().descriptor(*lease));
    looked.open();
    lease.reset();
  });
  lease.reset();
  EXPECT_FALSE(pools().has_returned(pool->ref));
  dropped.open();
  ASSERT_TRUE(looked.wait());
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_THAT(returned(*pool), SizeIs(1));
  ASSERT_OK(pools().leave(pool->ref));
}

TEST_F(MemoryPool, WhatTheOwnerHasLeftStaysForItsHolders) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  LeasePtr lease = share(*pool, 0, 100);
  LeasePtr gone = share(*pool, 200, 100);
  gone.reset();  // in the list when the owner leaves
  const pid_t broker = wait_for_brokers(token_).serves;
  ASSERT_OK(pools().leave(pool->ref));
  EXPECT_EQ(pools().live_pieces(), 1U);
  EXPECT_EQ(pools().live_pools(), 1U);
  EXPECT_EQ(pool_files_of(broker), 1U);
  EXPECT_EQ(audit_of(node()), "");
  const Result<os::Fd> file = pools().descriptor(*lease);
  ASSERT_OK(file);
  EXPECT_NE(file->inode(), 0U);
  lease.reset();
  EXPECT_EQ(pools().live_pools(), 0U);
  for (const pid_t pid : brokers(token_))
    EXPECT_TRUE(eventually([&] { return pool_files_of(pid) == 0; }, 2000)) << pid;
}

class SmallMemoryPool : public PoolFixture {
 protected:
  SmallMemoryPool() : PoolFixture(kTinyDomain) {}
};

TEST_F(SmallMemoryPool, AFullTableIsAnError) {
  const auto pool = enter_pool(node());
  ASSERT_TRUE(pool);
  std::vector<LeasePtr> leases;
  Status last;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    Result<LeasePtr> lease = pools().share(pool->ref, i * 8, 8);
    if (!lease) {
      last = lease.status();
      break;
    }
    leases.push_back(*std::move(lease));
  }
  EXPECT_EQ(last.code(), Code::kNoSpace);
  EXPECT_THAT(last.to_string(), HasSubstr("pieces of memory pools"));
  EXPECT_THAT(leases, SizeIs(16'383));
  leases.clear();
  EXPECT_THAT(returned(*pool), SizeIs(16'383));
  EXPECT_OK(pools().share(pool->ref, 0, 8));
  ASSERT_OK(pools().leave(pool->ref));
}

}  // namespace
}  // namespace forklift::test
