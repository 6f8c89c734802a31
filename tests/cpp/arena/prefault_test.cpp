// Memory that is made ready in the background.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "arena/arena.h"
#include "os/proc.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::Child;
using test::eventually;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Threads of a process that has started one, which has ended. The thread sanitizer has a thread of its own then.
#if defined(__SANITIZE_THREAD__)
constexpr std::size_t kAlone = 2;
#else
constexpr std::size_t kAlone = 1;
#endif

class PrefaultTest : public test::NodeFixture {
 protected:
  PrefaultTest() : NodeFixture({.address_space_bytes = std::uint64_t{4} << 30}) {}
  std::uint64_t stored() {
    struct stat info{};
    EXPECT_EQ(::fstat(domain().data_file().get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  bool becomes_ready(std::uint64_t bytes) {
    return eventually([&] { return arena().stats().cached_bytes >= bytes; });
  }
  bool is_alone() {
    return eventually([] { return os::tasks_of(::getpid()).size() == kAlone; });
  }
};

TEST_F(PrefaultTest, BlocksFindTheirPages) {
  ASSERT_OK(arena().set_budget(0, 64 * kMiB));
  ASSERT_TRUE(becomes_ready(64 * kMiB));
  EXPECT_TRUE(is_alone());
  EXPECT_EQ(arena().stats().committed_bytes, 64 * kMiB);
  EXPECT_EQ(stored(), 64 * kMiB);
  EXPECT_EQ(test::audit_of(node()), "");
  std::vector<LeasePtr> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(allocate(Kind::kShare, 3 * kMiB));
    blocks.push_back(allocate(Kind::kPrivate, 100 << 10));
    std::memset(blocks[blocks.size() - 2]->data(), 1, 3 * kMiB);
  }
  EXPECT_EQ(arena().stats().committed_bytes, 64 * kMiB);  // nothing fresh
  EXPECT_EQ(stored(), 64 * kMiB);
}

TEST_F(PrefaultTest, IsKeptBesideWhatIsKeptAnyway) {
  ASSERT_OK(arena().set_budget(256 * kMiB, 128 * kMiB));  // 64 MiB of it stay without a request
  ASSERT_TRUE(becomes_ready(128 * kMiB));
  for (int i = 0; i < 5; ++i) (void)allocate(Kind::kShare, 40 * kMiB);
  EXPECT_GE(arena().stats().cached_bytes, 128 * kMiB);
  ASSERT_OK(arena().set_budget(256 * kMiB, 0));
  (void)allocate(Kind::kShare, 40 * kMiB);  // freeing trims
  EXPECT_LE(arena().stats().cached_bytes, 64 * kMiB);
}

TEST_F(PrefaultTest, EndsWhereTheBudgetDoes) {
  EXPECT_CODE(Code::kInvalid, arena().set_budget(32 * kMiB, 33 * kMiB));
  EXPECT_NE(arena().budget(), 32 * kMiB);
  const LeasePtr held = allocate(Kind::kShare, 20 * kMiB);
  ASSERT_OK(arena().set_budget(32 * kMiB, 32 * kMiB));
  EXPECT_TRUE(is_alone());
  EXPECT_LE(arena().stats().committed_bytes, 32 * kMiB);
  EXPECT_GE(arena().stats().cached_bytes, 4 * kMiB);
  EXPECT_NE(allocate(Kind::kPrivate, 11 * kMiB), nullptr);  // what was made ready gives way
}

TEST_F(PrefaultTest, AnOddNumberIsRoundedUpToPages) {
  ASSERT_OK(arena().set_budget(0, 10'001));
  ASSERT_TRUE(becomes_ready(10'001));
  EXPECT_TRUE(is_alone());
  EXPECT_EQ(arena().stats().committed_bytes, 4 * 4096U);
}

TEST_F(PrefaultTest, TheNextCallReplacesIt) {
  ASSERT_OK(arena().set_budget(0, 512 * kMiB));
  ASSERT_OK(arena().set_budget(0, 0));
  const std::uint64_t made = arena().stats().committed_bytes;
  EXPECT_TRUE(is_alone());
  EXPECT_EQ(arena().stats().committed_bytes, made);
  EXPECT_LT(made, 512 * kMiB);
}

TEST_F(PrefaultTest, GoesOnInTheParentOfAFork) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(arena().set_budget(0, 96 * kMiB));
    Child child([&] {
      EXPECT_EQ(os::tasks_of(::getpid()).size(), kAlone);
      EXPECT_NE(allocate(Kind::kShare, kMiB), nullptr);
      EXPECT_EQ(os::tasks_of(::getpid()).size(), kAlone);
      ASSERT_OK(arena().set_budget(0, 0));  // its own one can be set
    });
    EXPECT_EQ(os::tasks_of(::getpid()).size(), kAlone);  // until it allocates, or waits
    EXPECT_EQ(child.wait(), 0);
    arena().trim(0);
    ASSERT_OK(arena().set_budget(0, 96 * kMiB));
    Child other([] {});
    EXPECT_EQ(other.wait(), 0);
    (void)allocate(Kind::kShare, 200 * kMiB);
    ASSERT_TRUE(becomes_ready(296 * kMiB));
    EXPECT_TRUE(is_alone());
    EXPECT_EQ(test::audit_of(node()), "");
    arena().trim(0);
  }
}

TEST_F(PrefaultTest, AKillLeavesNothingHeld) {
  for (int i = 0; i < 5; ++i) {
    Child child([&] {
      ASSERT_OK(arena().set_budget(0, 512 * kMiB));
      (void)eventually([&] { return arena().stats().committed_bytes > 40 * kMiB; });
      ::raise(SIGKILL);
    });
    EXPECT_EQ(child.wait(), -SIGKILL);
    EXPECT_TRUE(eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    EXPECT_EQ(arena().stats().held_blocks, 0U);
    EXPECT_EQ(test::audit_of(node()), "");
    ASSERT_OK(arena().set_budget(0, 0));
    arena().trim(0);
    EXPECT_EQ(stored(), 0U);
  }
}

}  // namespace
}  // namespace forklift::arena
