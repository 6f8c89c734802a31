// Blocks in transparent huge pages: which do, what they take, and that views, forks and trimming work on them. By request,
// so that the machine's setting is not changed; where the kernel gives none, the tests say so and are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>

#include "arena/arena.h"
#include "support/huge_pages.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using os::kHugePage;
using test::Child;

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool all_are(const LeasePtr& block, int value) {
  const std::span<const std::byte> bytes(block->data(), block->size());
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == std::byte(value); });
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

class BlocksInHugePages : public test::NodeFixture {
 protected:
  explicit BlocksInHugePages(std::optional<bool> huge = true)
      : NodeFixture({.huge_pages = huge, .address_space_bytes = std::uint64_t{1} << 30}) {}
  void SetUp() override {
    NodeFixture::SetUp();
    if (options_.huge_pages == true && !test::huge_pages_can_be_had()) GTEST_SKIP() << test::kNoHugePages;
  }
  void TearDown() override {
    EXPECT_TRUE(test::eventually([&] { return domain().reap(), domain().live_slots() == 1; }));
    NodeFixture::TearDown();
  }
  std::uint64_t stored() {
    struct stat info{};
    EXPECT_EQ(::fstat(domain().data_file().get(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
};

TEST_F(BlocksInHugePages, TakeWhatWasAskedFor) {
  const LeasePtr block = allocate(Kind::kShare, 5 * kMiB);
  EXPECT_EQ(arena().huge_bytes(), 4 * kMiB);  // the last mebibyte is in small ones
  EXPECT_EQ(arena().stats().committed_bytes, 5 * kMiB);
  EXPECT_EQ(stored(), 5 * kMiB);
  std::memset(block->data(), 1, block->size());
  EXPECT_EQ(stored(), 5 * kMiB);
}

TEST_F(BlocksInHugePages, AreTheLargeOnes) {
  const LeasePtr small = allocate(Kind::kShare, 2 * kMiB - 4096);
  const LeasePtr tiny = allocate(Kind::kShare, 100);
  std::memset(tiny->data(), 1, tiny->size());
  EXPECT_EQ(arena().huge_bytes(), 0U);
  EXPECT_LE(stored(), 2 * kMiB);
}

TEST_F(BlocksInHugePages, AreZeroWhereThatIsAskedFor) {
  std::memset(allocate(Kind::kShare, 4 * kMiB)->data(), 1, 4 * kMiB);
  EXPECT_TRUE(all_are(allocate(Kind::kShare, 4 * kMiB, true), 0));
  EXPECT_TRUE(all_are(allocate(Kind::kShare, 8 * kMiB, true), 0));
}

TEST_F(BlocksInHugePages, GoBackAsAWhole) {
  for (int round = 0; round < 3; ++round) {
    std::memset(allocate(Kind::kShare, 7 * kMiB)->data(), 1, 7 * kMiB);
    EXPECT_EQ(arena().huge_bytes(), 6 * kMiB);
    EXPECT_EQ(arena().trim(0), 7 * kMiB);
    EXPECT_EQ(arena().huge_bytes(), 0U);
    EXPECT_EQ(stored(), 0U);
  }
}

TEST_F(BlocksInHugePages, NeedNoMappingsOfTheirOwn) {
  (void)allocate(Kind::kShare, 2 * kMiB);
  const std::size_t before = mappings();
  std::vector<LeasePtr> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(allocate(Kind::kShare, 2 * kMiB));
    blocks.push_back(allocate(Kind::kShare, kMiB));
  }
  EXPECT_GE(arena().huge_bytes(), 20 * kMiB);
  EXPECT_LE(mappings(), before + 1);  // the heap may grow
}

TEST_F(BlocksInHugePages, AreMappedAsAWholeByAnotherProcess) {
  const LeasePtr block = allocate(Kind::kShare, 8 * kMiB);
  const channel::ChannelPtr channel = make_channel();
  std::memset(block->data(), 3, block->size());
  LeasePtr sent = *arena().another(block);
  ASSERT_OK(arena().separate(sent));
  ASSERT_OK(channel->put({.leases = {&sent, 1}}, os::Deadline::after_seconds(10)));
  Child child([&] {
    channel::Incoming message;
    ASSERT_OK(channel->get(message, os::Deadline::after_seconds(10)));
    const LeasePtr got = message.leases().front();
    EXPECT_TRUE(all_are(got, 3));
    EXPECT_EQ(arena().huge_bytes(), 8 * kMiB);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(test::audit_of(node()).empty());
}

TEST_F(BlocksInHugePages, ArePrivateAfterAFork) {
  const channel::ChannelPtr channel = make_channel();
  LeasePtr block = allocate(Kind::kPrivate, 6 * kMiB);
  std::memset(block->data(), 1, block->size());
  const LeasePtr payload = pass(channel, block);
  ASSERT_OK(arena().privatise(*payload));
  EXPECT_TRUE(all_are(payload, 1));
  EXPECT_EQ(arena().huge_bytes(), 12 * kMiB);  // where it was written, and in the view
  test::Gate written;
  Child child([&] {
    ASSERT_TRUE(written.wait());
    EXPECT_TRUE(all_are(payload, 1));
    std::memset(payload->data(), 3, payload->size());
  });
  std::memset(payload->data(), 2, kMiB);
  written.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(std::all_of(payload->data(), payload->data() + kMiB,
                          [](std::byte byte) { return byte == std::byte{2}; }));
  EXPECT_EQ(payload->data()[kMiB], std::byte{1});
  EXPECT_EQ(payload->data()[payload->size() - 1], std::byte{1});
}

class BlocksInSmallPages : public BlocksInHugePages {
 protected:
  BlocksInSmallPages() : BlocksInHugePages(false) {}
};

TEST_F(BlocksInSmallPages, WhereHugeOnesAreRefused) {
  const LeasePtr block = allocate(Kind::kShare, 8 * kMiB);
  std::memset(block->data(), 1, block->size());
  EXPECT_EQ(arena().huge_bytes(), 0U);
  EXPECT_EQ(stored(), 8 * kMiB);
}

class BlocksByDefault : public BlocksInHugePages {
 protected:
  BlocksByDefault() : BlocksInHugePages(std::nullopt) {}
};

TEST_F(BlocksByDefault, FollowTheKernelsSetting) {
  if (std::getenv("FORKLIFT_HUGE_PAGES") != nullptr) GTEST_SKIP() << "FORKLIFT_HUGE_PAGES is set";
  const LeasePtr block = allocate(Kind::kShare, 8 * kMiB);
  if (os::huge_pages_of_shared_memory() != os::HugePages::kOnAdvice) {
    EXPECT_EQ(arena().huge_bytes(), 0U);
  } else if (!test::huge_pages_can_be_had()) {
    GTEST_SKIP() << test::kNoHugePages;
  } else {
    EXPECT_EQ(arena().huge_bytes(), 8 * kMiB);
  }
}

}  // namespace
}  // namespace forklift::arena
