// The redo record: all or nothing, however often it is replayed.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "sync/redo.h"

namespace forklift::sync {
namespace {

struct Shared {
  RedoRecord record{};
  Word words[8]{};
};

class RedoTest : public testing::Test {
 protected:
  std::byte* base() { return reinterpret_cast<std::byte*>(shared_.get()); }
  Word& word(std::size_t index) { return shared_->words[index]; }
  RedoRecord& record() { return shared_->record; }
  // The record as an owner leaves it that is killed before its commit.
  void write_entry(std::size_t at, std::size_t index, std::uint64_t value) {
    record().entries[at] = {static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&word(index)) - base()),
                            value};
  }

  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
};

TEST_F(RedoTest, NothingChangesBeforeTheCommit) {
  Transaction change(record(), base());
  change.set(word(0), 1);
  change.set(word(1), 2);
  EXPECT_EQ(word(0), 0U);
  EXPECT_EQ(change.size(), 2U);
  EXPECT_EQ(record().count, 0U);
  change.commit();
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(word(1), 2U);
  EXPECT_EQ(record().count, 0U);
}

TEST_F(RedoTest, TheLaterValueOfAWordWins) {
  Transaction change(record(), base());
  change.set(word(0), 1);
  change.set(word(0), 5);
  change.commit();
  EXPECT_EQ(word(0), 5U);
}

TEST_F(RedoTest, WithoutACountNothingIsReplayed) {
  write_entry(0, 0, 7);
  Transaction::replay(record(), base());
  EXPECT_EQ(word(0), 0U);
}

TEST_F(RedoTest, AHalfAppliedChangeIsCompletedAndAgainIsNoHarm) {
  word(0) = 7;  // applied before the death
  write_entry(0, 0, 7);
  write_entry(1, 1, 8);
  write_entry(2, 2, 9);
  for (int replays = 0; replays < 2; ++replays) {
    record().count = 2;  // the second replayer may die as well, before it clears the count
    Transaction::replay(record(), base());
    EXPECT_EQ(record().count, 0U);
    EXPECT_EQ(word(0), 7U);
    EXPECT_EQ(word(1), 8U);
    EXPECT_EQ(word(2), 0U);  // beyond the count
  }
}

TEST_F(RedoTest, AnEmptyTransactionAndAnImpossibleCountChangeNothing) {
  Transaction(record(), base()).commit();
  write_entry(0, 0, 7);
  record().count = RedoRecord::kCapacity + 1;
  Transaction::replay(record(), base());
  EXPECT_EQ(word(0), 0U);
  EXPECT_EQ(record().count, 0U);
}

TEST_F(RedoTest, AFullRecordIsApplied) {
  Transaction change(record(), base());
  for (std::size_t i = 0; i < RedoRecord::kCapacity; ++i) change.set(word(i % 8), i);
  change.commit();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(word(i), RedoRecord::kCapacity - 8 + i);
}

}  // namespace
}  // namespace forklift::sync
