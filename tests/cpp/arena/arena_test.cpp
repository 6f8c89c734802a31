// Blocks: sizes, alignment, recycling, the budget, address space, and use by many at once.
#include "arena/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "os/limits.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;
using test::Child;
using test::Gate;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

class ArenaTest : public test::NodeFixture {
 protected:
  std::uint64_t offset_of(const LeasePtr& lease) { return lease->handle().offset; }
};

bool all_are(const LeasePtr& lease, std::byte value) {
  return std::all_of(lease->data(), lease->data() + lease->size(), [&](std::byte b) { return b == value; });
}

class ArenaSizeTest : public ArenaTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(ArenaSizeTest, IsWritableAlignedAndExactlyAccounted) {
  const std::size_t bytes = GetParam();
  for (const Kind kind : {Kind::kShare, Kind::kPrivate}) {
    LeasePtr block = allocate(kind, bytes);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->size(), bytes);
    EXPECT_EQ(block->kind(), kind);
    EXPECT_EQ(block->handle().length, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % (bytes >= 4096 ? 4096 : 64), 0U);
    EXPECT_EQ(offset_of(block) >= domain().data_bytes() / 2, kind == Kind::kPrivate);
    block->data()[0] = std::byte{1};
    block->data()[bytes - 1] = std::byte{2};
    EXPECT_EQ(audit_of(node()), "");
    EXPECT_EQ(arena().stats().held_blocks, 1U);
    EXPECT_EQ(arena().stats().leases, 1U);
    block.reset();
    EXPECT_EQ(audit_of(node()), "");
    EXPECT_EQ(arena().stats().held_blocks, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ArenaSizeTest,
                         testing::Values(1, 2, 63, 64, 65, 127, 128, 2048, 4095, 4096, 4097, 64 * kKiB - 1,
                                         64 * kKiB, 64 * kKiB + 1, kMiB, 3 * kMiB + 5, 64 * kMiB,
                                         256 * kMiB));

TEST_F(ArenaTest, ImpossibleSizesAreRefusedWithTheLimit) {
  EXPECT_CODE(Code::kInvalid, arena().allocate(Kind::kShare, 0));
  const std::uint64_t half = domain().data_bytes() / 2;
  for (const std::size_t bytes : {static_cast<std::size_t>(half + 1), std::numeric_limits<std::size_t>::max(),
                                  std::numeric_limits<std::size_t>::max() / 2 + 1}) {
    const Result<LeasePtr> refused = arena().allocate(Kind::kShare, bytes);
    EXPECT_CODE(Code::kNoSpace, refused);
    EXPECT_THAT(std::string(refused.status().what()),
                AllOf(HasSubstr(std::to_string(bytes)), HasSubstr(std::to_string(half))));
  }
}

TEST_F(ArenaTest, AFreedBlockIsTheNextOfItsClass) {
  for (const std::size_t bytes : {std::size_t{100}, 10 * kKiB, 3 * kMiB}) {
    LeasePtr first = allocate(Kind::kShare, bytes);
    LeasePtr second = allocate(Kind::kShare, bytes);
    const Handle one = first->handle();
    const Handle two = second->handle();
    EXPECT_NE(one.offset, two.offset);
    first.reset();
    second.reset();
    first = allocate(Kind::kShare, bytes - 3);  // the last freed comes first
    EXPECT_EQ(first->handle().offset, two.offset);
    EXPECT_EQ(first->handle().block, two.block);
    EXPECT_NE(first->handle().generation, two.generation);
    second = allocate(Kind::kShare, bytes);
    EXPECT_EQ(second->handle().offset, one.offset);
    LeasePtr other_kind = allocate(Kind::kPrivate, bytes);
    EXPECT_NE(other_kind->handle().block, one.block);
  }
}

TEST_F(ArenaTest, ZeroedIsZeroOverDirtyFreshAndMixedMemory) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{3000}, 40 * kKiB, 5 * kMiB}) {
    LeasePtr dirty = allocate(Kind::kShare, bytes);
    EXPECT_TRUE(all_are(allocate(Kind::kShare, bytes, true), std::byte{0}));
    std::memset(dirty->data(), 0xff, bytes);
    const std::uint64_t offset = offset_of(dirty);
    dirty.reset();
    LeasePtr clean = allocate(Kind::kShare, bytes, true);
    EXPECT_EQ(offset_of(clean), offset);
    EXPECT_TRUE(all_are(clean, std::byte{0}));
  }
  // Two thirds of the class were used before, the rest is fresh.
  LeasePtr part = allocate(Kind::kPrivate, 40 * kKiB);
  std::memset(part->data(), 0xff, part->size());
  part.reset();
  EXPECT_TRUE(all_are(allocate(Kind::kPrivate, 60 * kKiB, true), std::byte{0}));
}

TEST_F(ArenaTest, OverTheBudgetItIsRefusedWithTheNumbers) {
  domain().set_budget(8 * kMiB);
  EXPECT_EQ(arena().stats().budget_bytes, 8 * kMiB);
  LeasePtr held = allocate(Kind::kShare, 5 * kMiB);
  const Result<LeasePtr> refused = arena().allocate(Kind::kShare, 4 * kMiB);
  EXPECT_CODE(Code::kOverBudget, refused);
  EXPECT_THAT(std::string(refused.status().what()),
              AllOf(HasSubstr(std::to_string(4 * kMiB)), HasSubstr(std::to_string(5 * kMiB)),
                    HasSubstr(std::to_string(8 * kMiB))));
  EXPECT_EQ(audit_of(node()), "");
  LeasePtr fits = allocate(Kind::kShare, 3 * kMiB);
  EXPECT_EQ(arena().stats().committed_bytes, 8 * kMiB);
  EXPECT_CODE(Code::kOverBudget, arena().allocate(Kind::kShare, 1));
  domain().set_budget(9 * kMiB);
  EXPECT_OK(arena().allocate(Kind::kShare, 1));
}

TEST_F(ArenaTest, WarmFreeMemoryMakesWayForTheBudget) {
  domain().set_budget(8 * kMiB);
  for (int i = 0; i < 3; ++i) {
    LeasePtr small = allocate(Kind::kShare, 3 * kMiB);
    LeasePtr other = allocate(Kind::kPrivate, 2 * kMiB);
    small.reset();
    other.reset();
    EXPECT_GT(arena().stats().cached_bytes, 0U);
    LeasePtr large = allocate(Kind::kShare, 7 * kMiB);
    ASSERT_TRUE(large);
    EXPECT_LE(arena().stats().committed_bytes, 8 * kMiB);
    EXPECT_EQ(audit_of(node()), "");
  }
}

TEST_F(ArenaTest, WhatADeadProcessHeldMakesWayForTheBudget) {
  domain().set_budget(8 * kMiB);
  Gate ready;
  Child child([&] {
    LeasePtr held = allocate(Kind::kShare, 6 * kMiB);
    EXPECT_TRUE(held);
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_CODE(Code::kOverBudget, arena().allocate(Kind::kShare, 6 * kMiB));
  child.kill_now();
  EXPECT_TRUE(allocate(Kind::kShare, 6 * kMiB));
  EXPECT_EQ(domain().live_slots(), 1U);
}

TEST_F(ArenaTest, TheDerivedBudgetLeavesRoomForOthers) {
  EXPECT_GT(arena().budget(), 0U);
  EXPECT_LT(arena().budget(), static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * 4096);
  // When the committed memory reaches it, the machine is asked again.
  EXPECT_GT(domain().budget(arena().budget()), arena().budget() / 2);
}

TEST_F(ArenaTest, FreeMemoryBeyondTheKeptPartIsGivenBack) {
  domain().set_budget(200 * kMiB);
  std::vector<LeasePtr> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(allocate(Kind::kShare, 8 * kMiB));
  blocks.clear();
  const Stats stats = arena().stats();
  EXPECT_LE(stats.cached_bytes, 64 * kMiB);
  EXPECT_EQ(stats.committed_bytes, stats.cached_bytes);
}

TEST_F(ArenaTest, AnotherRightIsIndependent) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  Result<LeasePtr> second = arena().another(block);
  ASSERT_OK(second);
  EXPECT_EQ((*second)->data(), block->data());
  EXPECT_EQ((*second)->size(), 5000U);
  EXPECT_EQ(arena().holders(**second), 2U);
  EXPECT_EQ(arena().stats().held_blocks, 1U);
  EXPECT_EQ(audit_of(node()), "");
  block.reset();
  EXPECT_EQ(arena().holders(**second), 1U);
  EXPECT_EQ(arena().stats().held_blocks, 1U);
  (*second)->data()[4999] = std::byte{1};
  second->reset();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

// A range of private memory becomes the block's memory, under its old addresses, and then private memory again.
TEST_F(ArenaTest, AnOverlayShowsTheBlockAndThenZeros) {
  const std::size_t page = os::page_size();
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(page, 8 * page), std::free);
  auto* const range = static_cast<std::byte*>(memory.get());
  std::memset(range, 1, 8 * page);
  LeasePtr block = allocate(Kind::kShare, 64 * kKiB);
  std::memset(block->data(), 2, 64 * kKiB);
  {
    Result<os::Overlay> overlay = arena().overlay(*block, 3 * page, range + page, 4 * page);
    ASSERT_OK(overlay);
    EXPECT_EQ(range[page - 1], std::byte{1});
    EXPECT_EQ(range[page], std::byte{2});
    EXPECT_EQ(range[5 * page - 1], std::byte{2});
    EXPECT_EQ(range[5 * page], std::byte{1});
    range[page] = std::byte{3};
    EXPECT_EQ(block->data()[3 * page], std::byte{3});
    block->data()[7 * page - 1] = std::byte{4};
    EXPECT_EQ(range[5 * page - 1], std::byte{4});
    os::Overlay moved(*std::move(overlay));
    EXPECT_TRUE(moved.valid());
    EXPECT_FALSE(overlay->valid());
    ASSERT_OK(moved.end());
    EXPECT_FALSE(moved.valid());
    ASSERT_OK(moved.end());
  }
  EXPECT_TRUE(std::all_of(range + page, range + 5 * page, [](std::byte b) { return b == std::byte{0}; }));
  range[page] = std::byte{5};
  EXPECT_EQ(block->data()[3 * page], std::byte{3});
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(ArenaTest, ARightThatWasPassedOnGivesNoOther) {
  LeasePtr block = allocate(Kind::kShare, 5000);
  channel::ChannelPtr channel = make_channel();
  LeasePtr keep = block;
  LeasePtr received = pass(channel, block);
  ASSERT_TRUE(received);
  EXPECT_FALSE(keep->held());
  EXPECT_CODE(Code::kInvalid, arena().another(keep));
  EXPECT_TRUE(received->held());
  EXPECT_EQ(received->handle().offset, keep->handle().offset);
}

// Fills each block with a number of its own and looks whether somebody else wrote there.
void use_blocks(Arena& arena, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  std::vector<std::pair<LeasePtr, std::byte>> mine;
  for (int round = 0; round < rounds; ++round) {
    if (mine.size() < 20 && random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 200'000 : 3000);
      Result<LeasePtr> block =
          arena.allocate(random() % 3 ? Kind::kShare : Kind::kPrivate, bytes, random() % 5 == 0);
      ASSERT_OK(block);
      const auto value = static_cast<std::byte>(random());
      std::memset((*block)->data(), static_cast<int>(value), bytes);
      mine.emplace_back(*std::move(block), value);
    } else if (!mine.empty()) {
      const std::size_t at = random() % mine.size();
      ASSERT_TRUE(all_are(mine[at].first, mine[at].second)) << "two owners of one block";
      std::swap(mine[at], mine.back());
      mine.pop_back();
    }
    if (random() % 500 == 0) arena.trim(random() % 500'000);
  }
}

TEST_F(ArenaTest, ManyThreadsShareIt) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back([this, i] { use_blocks(arena(), i, 4000); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena().stats().held_blocks, 0U);
}

TEST_F(ArenaTest, ManyProcessesShareIt) {
  std::vector<Child> children;
  for (unsigned i = 0; i < 3; ++i) {
    children.emplace_back([this, i] { use_blocks(arena(), 100 + i, 4000); });
  }
  use_blocks(arena(), 200, 4000);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(audit_of(node()), "");
  domain().reap();
}

TEST_F(ArenaTest, AKilledProcessLosesItsRights) {
  LeasePtr mine = allocate(Kind::kShare, 5000);
  Gate ready;
  Child child([&] {
    std::vector<LeasePtr> held;
    for (std::size_t i = 0; i < 100; ++i) held.push_back(allocate(Kind::kPrivate, 1 + i * 1000));
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(arena().stats().leases, 102U);
  child.kill_now();
  EXPECT_EQ(domain().reap(), 1U);
  EXPECT_EQ(arena().stats().leases, 1U);
  EXPECT_EQ(audit_of(node()), "");
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
void limit_address_space(std::uint64_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

std::uint64_t address_space_used() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
  std::fclose(file);
  return pages * 4096;
}

TEST(AddressSpaceTest, ALimitSetBeforeMakesTheDomainSmaller) {
  Child child([] {
    limit_address_space(address_space_used() + 600 * kMiB);
    Result<std::unique_ptr<node::Node>> node = node::Node::create();
    ASSERT_OK(node);
    EXPECT_LE((*node)->domain().data_bytes(), 256 * kMiB);
    EXPECT_GE((*node)->domain().data_bytes(), 128 * kMiB);
    Arena& arena = (*node)->arena();
    EXPECT_OK(arena.allocate(Kind::kShare, 20 * kMiB));
    const Result<LeasePtr> refused = arena.allocate(Kind::kShare, 400 * kMiB);
    EXPECT_CODE(Code::kNoSpace, refused);
    EXPECT_THAT(std::string(refused.status().what()), HasSubstr("RLIMIT_AS"));
    EXPECT_EQ(audit_of(**node), "");
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(AddressSpaceTest, ALimitTooLowForAnyDomainIsATypedError) {
  Child child([] {
    limit_address_space(address_space_used() + kMiB);
    const Result<std::unique_ptr<node::Node>> node = node::Node::create();
    EXPECT_CODE(Code::kSystem, node);
    EXPECT_EQ(node.status().call(), "mmap");
    EXPECT_EQ(node.status().errno_value(), ENOMEM);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ArenaTest, ALimitLoweredAfterwardsLeavesWhatIsMapped) {
  Child child([&] {
    channel::ChannelPtr channel = make_channel();
    LeasePtr block = allocate(Kind::kPrivate, 100 * kKiB);
    std::memset(block->data(), 3, block->size());
    limit_address_space(address_space_used() + 64 * kMiB);
    EXPECT_TRUE(allocate(Kind::kShare, 10 * kMiB));
    LeasePtr received = pass(channel, block);
    ASSERT_TRUE(received);
    const Status status = arena().privatise(*received);  // a view of its own cannot be had
    EXPECT_CODE(Code::kSystem, status);
    EXPECT_EQ(status.errno_value(), ENOMEM);
    EXPECT_TRUE(all_are(received, std::byte{3}));  // but the bytes can be read, and copied
    EXPECT_OK(node::Node::create());               // a small one finds room
    limit_address_space(RLIM_INFINITY);
    EXPECT_OK(arena().privatise(*received));
    EXPECT_TRUE(all_are(received, std::byte{3}));
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
}
#endif

}  // namespace
}  // namespace forklift::arena
