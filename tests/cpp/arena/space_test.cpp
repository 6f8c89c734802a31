// Space: splitting, merging when address space runs out, giving pages back. In a domain small enough to fill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class SpaceTest : public test::NodeFixture {
 protected:
  SpaceTest() : NodeFixture(test::kTinyDomain) {}
  std::size_t half() { return domain().data_bytes() / 2; }
  std::uint64_t pages_stored() {
    struct stat info{};
    EXPECT_EQ(::fstat(domain().data_file().get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  // As many blocks as there is room for.
  std::vector<LeasePtr> fill(Kind kind, std::size_t bytes) {
    std::vector<LeasePtr> all;
    for (;;) {
      Result<LeasePtr> block = arena().allocate(kind, bytes);
      if (!block) {
        EXPECT_CODE(Code::kNoSpace, block);
        return all;
      }
      all.push_back(*std::move(block));
    }
  }
};

TEST_F(SpaceTest, TheTinyDomainIsTiny) { EXPECT_EQ(domain().data_bytes(), 64 * kMiB); }

TEST_F(SpaceTest, AHalfIsFilledToTheLastBlockAndTheOtherHalfNotTouched) {
  std::vector<LeasePtr> all = fill(Kind::kShare, 4096);
  EXPECT_EQ(all.size(), half() / 4096);
  EXPECT_EQ(audit_of(node()), "");
  EXPECT_OK(arena().allocate(Kind::kPrivate, 16 * kMiB));
  all.pop_back();
  EXPECT_OK(arena().allocate(Kind::kShare, 4096));
  EXPECT_CODE(Code::kNoSpace, arena().allocate(Kind::kShare, 4097));
}

TEST_F(SpaceTest, FragmentsMergeWhenALargeBlockIsWanted) {
  for (int round = 0; round < 3; ++round) {
    std::vector<LeasePtr> all = fill(Kind::kShare, 4096);
    std::shuffle(all.begin(), all.end(), std::mt19937(static_cast<unsigned>(round)));
    all.clear();
    EXPECT_EQ(audit_of(node()), "");
    LeasePtr whole = allocate(Kind::kShare, half());
    ASSERT_TRUE(whole);
    EXPECT_EQ(audit_of(node()), "");
    EXPECT_CODE(Code::kNoSpace, arena().allocate(Kind::kShare, 1));
  }
}

TEST_F(SpaceTest, OnlyBuddiesMerge) {
  std::vector<LeasePtr> all = fill(Kind::kShare, 4096);
  std::sort(all.begin(), all.end(),
            [](const LeasePtr& a, const LeasePtr& b) { return a->handle().offset < b->handle().offset; });
  for (std::size_t i = 1; i < all.size(); i += 2) all[i].reset();  // half is free, in single pages
  EXPECT_CODE(Code::kNoSpace, arena().allocate(Kind::kShare, 8192));
  all[100].reset();  // 100 and 101 are buddies
  LeasePtr pair = allocate(Kind::kShare, 8192);
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->handle().offset, 100U * 4096);
  EXPECT_EQ(audit_of(node()), "");
  all[103].reset();
  all[102].reset();
  EXPECT_OK(arena().allocate(Kind::kShare, 8192));
  // 105 and 106 are free neighbours, but no buddies.
  all[106].reset();
  all[104].reset();
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(SpaceTest, MergedMemoryIsZeroedWhereAsked) {
  std::vector<LeasePtr> all = fill(Kind::kShare, 64 * 1024);
  for (std::size_t i = 0; i < all.size(); i += 3) std::memset(all[i]->data(), 0xff, all[i]->size());
  all.clear();
  LeasePtr whole = allocate(Kind::kShare, half(), true);
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::count(whole->data(), whole->data() + whole->size(), std::byte{0}),
            static_cast<std::ptrdiff_t>(half()));
}

// Small blocks dirty only parts of what is merged above them.
TEST_F(SpaceTest, MergedCrumbsAreZeroedToo) {
  std::vector<LeasePtr> crumbs;
  for (int i = 0; i < 1000; ++i) {
    crumbs.push_back(allocate(Kind::kShare, 64));
    std::memset(crumbs.back()->data(), 0xff, 64);
  }
  crumbs.clear();
  LeasePtr whole = allocate(Kind::kShare, half(), true);  // everything has to merge for this
  ASSERT_TRUE(whole);
  EXPECT_EQ(std::count(whole->data(), whole->data() + whole->size(), std::byte{0}),
            static_cast<std::ptrdiff_t>(half()));
}

TEST_F(SpaceTest, AFullBlockTableSaysSoAndRecovers) {
  std::vector<LeasePtr> crumbs = fill(Kind::kShare, 64);
  const std::size_t rows = domain().region(domain::Region::kBlocks).size() / sizeof(BlockRow);
  EXPECT_GT(crumbs.size(), rows - 100);
  EXPECT_LT(crumbs.size(), rows);
  EXPECT_EQ(audit_of(node()), "");
  crumbs.clear();
  EXPECT_OK(arena().allocate(Kind::kShare, half()));
  EXPECT_OK(arena().allocate(Kind::kPrivate, half()));
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(SpaceTest, TrimmingGivesPagesBack) {
  LeasePtr held = allocate(Kind::kShare, 2 * kMiB);
  std::memset(held->data(), 5, held->size());
  for (const std::size_t bytes : {4 * kMiB, kMiB, std::size_t{100'000}, std::size_t{4096}}) {
    LeasePtr block = allocate(bytes % 3 ? Kind::kShare : Kind::kPrivate, bytes);
    std::memset(block->data(), 0xff, bytes);
  }
  EXPECT_GE(pages_stored(), 7 * kMiB);
  const std::uint64_t cached = arena().stats().cached_bytes;
  EXPECT_GE(cached, 5 * kMiB);
  EXPECT_GE(arena().trim(kMiB), cached - kMiB);
  EXPECT_LE(arena().stats().cached_bytes, kMiB);
  arena().trim(0);
  EXPECT_EQ(arena().stats().cached_bytes, 0U);
  EXPECT_EQ(arena().stats().committed_bytes, 2 * kMiB);
  EXPECT_EQ(pages_stored(), 2 * kMiB);
  EXPECT_EQ(held->data()[2 * kMiB - 1], std::byte{5});
  EXPECT_EQ(audit_of(node()), "");
  LeasePtr again = allocate(Kind::kShare, 4 * kMiB);
  EXPECT_EQ(std::count(again->data(), again->data() + again->size(), std::byte{0}),
            static_cast<std::ptrdiff_t>(again->size()));
}

// Blocks below a page share theirs with others, so their pages stay; trimming ends nevertheless.
TEST_F(SpaceTest, TrimmingLeavesCrumbs) {
  std::vector<LeasePtr> crumbs;
  for (int i = 0; i < 100; ++i) crumbs.push_back(allocate(Kind::kShare, 100));
  LeasePtr keep = crumbs[50];
  std::memset(keep->data(), 9, keep->size());
  crumbs.clear();
  arena().trim(0);
  EXPECT_EQ(keep->data()[99], std::byte{9});
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(SpaceTest, APunchedBlockIsFreeAgain) {
  std::vector<LeasePtr> all = fill(Kind::kShare, kMiB);
  all.clear();
  EXPECT_EQ(arena().trim(0), half());
  all = fill(Kind::kShare, kMiB);
  EXPECT_EQ(all.size(), half() / kMiB);
  EXPECT_EQ(audit_of(node()), "");
}

// Trimming, merging and use at once: nobody loses a byte.
TEST_F(SpaceTest, TrimmingAndMergingAmongUsers) {
  std::atomic<bool> done{false};
  std::thread trimmer([&] {
    while (!done) arena().trim(0);
  });
  std::vector<std::thread> users;
  for (unsigned i = 0; i < 2; ++i) {
    users.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int round = 0; round < 500; ++round) {
        const std::size_t bytes = std::size_t{4096}
                                  << random() % 12;  // up to 8 MiB, so that merging is needed
        Result<LeasePtr> block = arena().allocate(Kind::kShare, bytes);
        if (!block) {
          EXPECT_CODE(Code::kNoSpace, block);
          continue;
        }
        const auto value = static_cast<std::byte>(random());
        (*block)->data()[0] = value;
        (*block)->data()[bytes - 1] = value;
        std::this_thread::yield();
        ASSERT_EQ((*block)->data()[0], value);
        ASSERT_EQ((*block)->data()[bytes - 1], value);
      }
    });
  }
  for (std::thread& user : users) user.join();
  done = true;
  trimmer.join();
}

}  // namespace
}  // namespace forklift::arena
