// Where the bytes of large blocks begin: apart in the bits by which AMD's processors find a way of the cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "arena/arena.h"
#include "support/node_fixture.h"

namespace forklift::arena {
namespace {

using test::audit_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::uint64_t kWithoutLimit = std::uint64_t{1} << 40;

// Bits 12 to 27, folded in the pairs that Lipp et al. found in 2020 (docs/decisions/0332-large-blocks-begin-apart.md).
unsigned tag_of(std::uint64_t address) {
  constexpr std::array<std::array<unsigned, 2>, 8> kPairs = {
      {{12, 27}, {13, 26}, {14, 25}, {15, 20}, {16, 21}, {17, 22}, {18, 23}, {19, 24}}};
  unsigned tag = 0;
  for (const auto& [low, high] : kPairs)
    tag = tag << 1 | static_cast<unsigned>((address >> low ^ address >> high) & 1);
  return tag;
}

class StaggerTest : public test::NodeFixture {
 protected:
  using NodeFixture::NodeFixture;

  // A block whose pages are booked and not made.
  Grant grant(Kind kind, std::size_t bytes) {
    Grant got{};
    Shortage shortage;
    const Status status = arena().ledger().grant(kind, bytes, got, shortage);
    EXPECT_TRUE(status) << status.what();
    if (status) rows_.push_back(static_cast<std::uint32_t>(got.row));
    return got;
  }
  void release_all() {
    for (const std::uint32_t row : rows_) arena().ledger().release_row(row, Holder::process(domain().self()));
    rows_.clear();
  }
  std::vector<std::uint32_t> rows_;
};

TEST_F(StaggerTest, LargeBlocksHaveTagsOfTheirOwn) {
  // What a block of the next class is taken for; a sanitizer leaves less address space.
  const std::uint64_t budget = std::min(std::uint64_t{16} << 30, arena().ledger().rows().half() / 4);
  domain().set_budget(budget);
  for (const Kind kind : {Kind::kShare, Kind::kPrivate}) {
    for (const std::size_t bytes : {96 * kMiB, 128 * kMiB, 256 * kMiB, 300 * kMiB, 512 * kMiB, 1000 * kMiB}) {
      if (4 * (bytes + kMostStagger) > budget) continue;
      std::set<unsigned> tags;
      for (int i = 0; i < 4; ++i) {
        const Grant got = grant(kind, bytes);
        EXPECT_EQ(got.offset % kStaggerStep, 0U);
        tags.insert(tag_of(got.offset));
      }
      EXPECT_EQ(tags.size(), 4U) << bytes;
      EXPECT_EQ(audit_of(node()), "");
      release_all();
    }
  }
  EXPECT_EQ(audit_of(node()), "");
}

TEST_F(StaggerTest, BooksWhatLiesBeforeTheBytesAndNoMore) {
  domain().set_budget(std::uint64_t{4} << 30);
  (void)grant(Kind::kShare, 256 * kMiB);
  const std::uint64_t before = arena().stats().committed_bytes;
  const Grant got = grant(Kind::kShare, 300 * kMiB);
  const std::uint64_t start = arena().ledger().rows().block(static_cast<std::uint32_t>(got.block)).start;
  EXPECT_NE(start, 0U);
  EXPECT_EQ(got.fresh_from, 0U);
  EXPECT_EQ(got.fresh_to, 300 * kMiB);
  EXPECT_EQ(arena().stats().committed_bytes - before, start + 300 * kMiB);
  release_all();
}

TEST_F(StaggerTest, TheBytesTravelAndAreZeroedWhereTheyLie) {
  domain().set_budget(std::uint64_t{4} << 30);
  (void)grant(Kind::kShare, 200 * kMiB);
  (void)grant(Kind::kPrivate, 200 * kMiB);
  for (const Kind kind : {Kind::kShare, Kind::kPrivate}) {
    LeasePtr block = allocate(kind, 20 * kMiB);
    ASSERT_TRUE(block);
    const BlockRow& row = arena().ledger().rows().block(block->handle().block);
    ASSERT_NE(row.start, 0U);
    EXPECT_EQ(block->handle().offset, row.offset + row.start);
    std::memset(block->data(), 0x5a, block->size());

    Handle wrong = block->handle();
    wrong.offset = row.offset;
    EXPECT_EQ(arena().ledger().check(wrong, Holder::process(domain().self())).code(), Code::kCorrupt);
    wrong = block->handle();
    wrong.length = 32 * kMiB;  // fits into the block, not behind where its bytes begin
    EXPECT_EQ(arena().ledger().check(wrong, Holder::process(domain().self())).code(), Code::kCorrupt);

    block = pass(make_channel(), std::move(block));
    ASSERT_TRUE(block);
    ASSERT_OK(arena().privatise(*block));
    EXPECT_EQ(std::count(block->data(), block->data() + block->size(), std::byte{0x5a}),
              static_cast<std::ptrdiff_t>(20 * kMiB));
    const std::uint32_t index = block->handle().block;
    block.reset();

    block = allocate(kind, 24 * kMiB, true);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->handle().block, index);  // it was the warm one
    EXPECT_EQ(std::count(block->data(), block->data() + block->size(), std::byte{0}),
              static_cast<std::ptrdiff_t>(24 * kMiB));
    block.reset();
    EXPECT_EQ(audit_of(node()), "");
  }
  release_all();
}

class SmallStaggerTest : public StaggerTest {
 protected:
  SmallStaggerTest() : StaggerTest({.address_space_bytes = std::uint64_t{4} << 30}) {}  // 1 GiB of data
};

// Address space comes first: four such blocks fill the half.
TEST_F(SmallStaggerTest, BlocksOfAPowerOfTwoTakeTheirClassWhereSpaceIsShort) {
  domain().set_budget(kWithoutLimit);
  for (int i = 0; i < 4; ++i) (void)grant(Kind::kShare, 128 * kMiB);
  EXPECT_EQ(rows_.size(), 4U);
  EXPECT_EQ(audit_of(node()), "");
  release_all();
}

// With a small budget there is room, unless it was larger before.
TEST_F(SmallStaggerTest, TheSmallerClassServesWhenNoLargerBlockIsLeft) {
  domain().set_budget(kWithoutLimit);
  for (int i = 0; i < 3; ++i) (void)grant(Kind::kShare, 127 * kMiB);
  domain().set_budget(128 * kMiB);
  Word& committed = arena().ledger().state().committed;
  const std::uint64_t those = committed.exchange(0);
  const Grant got = grant(Kind::kShare, 128 * kMiB);
  committed.fetch_add(those);
  EXPECT_EQ(rows_.size(), 4U);
  EXPECT_EQ(arena().ledger().rows().block(static_cast<std::uint32_t>(got.block)).start, 0U);
  EXPECT_EQ(audit_of(node()), "");
  release_all();
}

}  // namespace
}  // namespace forklift::arena
