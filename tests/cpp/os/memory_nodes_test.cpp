// Which processor lies on which memory node, as a folder of files says; and preferences of a memory file's ranges, which the
// kernel is asked about. Whether pages lie on another node cannot be seen on a machine with one.
#include "os/memory_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "os/mapping.h"
#include "os/memfd.h"
#include "os/proc.h"
#include "support/memory_nodes.h"
#include "support/status_check.h"

namespace forklift::os {
namespace {

using test::NodeFolder;

TEST(MemoryNodesTest, AreWhatTheFilesSay) {
  const NodeFolder folder({"0-1,8,10-11", "2-7,9"});
  const MemoryNodes nodes = MemoryNodes::of_machine(folder.path());
  EXPECT_TRUE(nodes.several());
  for (const int cpu : {0, 1, 8, 10, 11}) EXPECT_EQ(nodes.of_cpu(cpu), 0) << cpu;
  for (const int cpu : {2, 3, 7, 9}) EXPECT_EQ(nodes.of_cpu(cpu), 1) << cpu;
  for (const int cpu : {-1, 12, 1 << 20}) EXPECT_EQ(nodes.of_cpu(cpu), kAnyNode) << cpu;
}

TEST(MemoryNodesTest, NumbersMayHaveGaps) {
  const NodeFolder folder({"0", "1", "3"});
  folder.write("online", "0,2");
  folder.write("has_memory", "0,2");
  const MemoryNodes nodes = MemoryNodes::of_machine(folder.path());
  EXPECT_TRUE(nodes.several());
  EXPECT_EQ(nodes.of_cpu(0), 0);
  EXPECT_EQ(nodes.of_cpu(1), kAnyNode);  // offline
  EXPECT_EQ(nodes.of_cpu(2), kAnyNode);
  EXPECT_EQ(nodes.of_cpu(3), 2);
}

TEST(MemoryNodesTest, AListMayBeLong) {
  std::string even = "0";
  std::string odd = "1";
  for (int cpu = 2; cpu < 2048; cpu += 2) {
    even += "," + std::to_string(cpu);
    odd += "," + std::to_string(cpu + 1);
  }
  const NodeFolder folder({even, odd});
  const MemoryNodes nodes = MemoryNodes::of_machine(folder.path());
  EXPECT_EQ(nodes.of_cpu(2046), 0);
  EXPECT_EQ(nodes.of_cpu(2047), 1);
}

TEST(MemoryNodesTest, OneNodeIsNone) {
  EXPECT_FALSE(MemoryNodes().several());
  EXPECT_FALSE(MemoryNodes::of_machine(NodeFolder({"0-7"}).path()).several());
  EXPECT_FALSE(MemoryNodes::of_machine("/nonexistent").several());
  EXPECT_EQ(MemoryNodes::of_machine(NodeFolder({"0-7"}).path()).of_cpu(3), kAnyNode);
}

TEST(MemoryNodesTest, ANodeWithoutProcessorsOrMemoryCountsForNothing) {
  EXPECT_FALSE(MemoryNodes::of_machine(NodeFolder({"0-7", ""}).path()).several());
  const NodeFolder folder({"0-1", "2-3", "4-5"});
  folder.write("has_memory", "0,2");
  const MemoryNodes nodes = MemoryNodes::of_machine(folder.path());
  EXPECT_TRUE(nodes.several());
  EXPECT_EQ(nodes.of_cpu(2), kAnyNode);
  EXPECT_EQ(nodes.of_cpu(4), 2);
  folder.write("has_memory", "1");
  EXPECT_FALSE(MemoryNodes::of_machine(folder.path()).several());
}

TEST(MemoryNodesTest, WhatIsMissingOrNonsenseIsOneNode) {
  for (const char* file : {"online", "has_memory", "node1/cpulist"}) {
    for (const char* text :
         {"", "0-", "0,", ",0", "-1", "1-0", "0-1 ", "x", "0x1", "0--1", "0-99999999", "0,1\n2"}) {
      const NodeFolder folder({"0-3", "4-7"});
      ASSERT_TRUE(MemoryNodes::of_machine(folder.path()).several());
      folder.write(file, text);
      EXPECT_FALSE(MemoryNodes::of_machine(folder.path()).several()) << file << ": '" << text << "'";
    }
    const NodeFolder folder({"0-3", "4-7"});
    folder.write_raw(file, "0-1");  // cut off, as it seems
    EXPECT_FALSE(MemoryNodes::of_machine(folder.path()).several()) << file;
    folder.remove(file);
    EXPECT_FALSE(MemoryNodes::of_machine(folder.path()).several()) << file;
  }
  const NodeFolder twice({"0-3", "3-7"});
  EXPECT_FALSE(MemoryNodes::of_machine(twice.path()).several());
}

// On this one a processor has no node only where there is one node.
TEST(MemoryNodesTest, OfThisMachine) {
  const MemoryNodes nodes = MemoryNodes::of_machine();
  EXPECT_EQ(nodes.of_cpu(1 << 20), kAnyNode);
  if (nodes.several()) {
    EXPECT_NE(nodes.of_cpu(current_cpu()), kAnyNode);
  } else {
    EXPECT_EQ(nodes.of_cpu(current_cpu()), kAnyNode);
  }
}

constexpr std::uint64_t kPart = std::uint64_t{1} << 20;

// The policy of a page, as any mapping shows it.
int policy_at(const std::byte* address) {
  int mode = -1;
  EXPECT_EQ(
      ::syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, address, static_cast<unsigned long>(MPOL_F_ADDR)), 0);
  return mode;
}

class PreferredNode : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::why_no_preference(); !why.empty()) GTEST_SKIP() << why;
    file_ = *create_memfd("nodes", 4 * kPart);
    whole_ = *Mapping::shared(file_, 0, 4 * kPart);
  }
  Fd file_;
  Mapping whole_;
};

// What PageNodes relies on.
TEST_F(PreferredNode, BelongsToTheRangeOfTheFile) {
  {
    const Mapping window = *Mapping::shared(file_, kPart, kPart);
    ASSERT_EQ(prefer_node(window.data(), kPart, 0), 0);
  }
  EXPECT_EQ(policy_at(whole_.data() + kPart - 1), MPOL_DEFAULT);
  EXPECT_EQ(policy_at(whole_.data() + kPart), MPOL_PREFERRED);
  EXPECT_EQ(policy_at(whole_.data() + 2 * kPart - 1), MPOL_PREFERRED);
  EXPECT_EQ(policy_at(whole_.data() + 2 * kPart), MPOL_DEFAULT);
}

TEST_F(PreferredNode, IsTakenBackThroughTheSameWindow) {
  const Mapping window = *Mapping::shared(file_, kPart, kPart);
  ASSERT_EQ(prefer_node(window.data(), kPart, 0), 0);
  ASSERT_OK(allocate_range(file_, kPart, kPart));
  ASSERT_EQ(prefer_node(window.data(), kPart, kAnyNode), 0);
  EXPECT_EQ(policy_at(whole_.data() + kPart), MPOL_DEFAULT);
  int node = -1;
  ASSERT_EQ(::syscall(SYS_get_mempolicy, &node, nullptr, 0UL, whole_.data() + kPart,
                      static_cast<unsigned long>(MPOL_F_NODE | MPOL_F_ADDR)),
            0);
  EXPECT_EQ(node, 0);
}

TEST_F(PreferredNode, IsRefusedWhereThereIsNone) {
  EXPECT_EQ(prefer_node(whole_.data(), kPart, 1023), EINVAL);
  EXPECT_EQ(prefer_node(whole_.data(), kPart, 1024), EINVAL);
  EXPECT_EQ(prefer_node(whole_.data() + 1, kPart, 0), EINVAL);
  EXPECT_EQ(policy_at(whole_.data()), MPOL_DEFAULT);
}

TEST_F(PreferredNode, OfAThreadIsSeen) {
  EXPECT_EQ(thread_has_policy(), 0);
  const unsigned long first = 1;
  ASSERT_EQ(::syscall(SYS_set_mempolicy, MPOL_PREFERRED, &first, 64UL), 0);
  EXPECT_EQ(thread_has_policy(), 1);
  ASSERT_EQ(::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL), 0);
  EXPECT_EQ(thread_has_policy(), 0);
}

}  // namespace
}  // namespace forklift::os
