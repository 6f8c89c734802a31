// Boards: their end, the newest of their messages, many threads, damage and wrong arguments.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "channel/boards.h"
#include "support/asleep.h"
#include "support/board_fixture.h"

namespace forklift::test {
namespace {

TEST_F(BoardTest, FinishedMeansNothingMore) {
  const BoardPtr board = make();
  const ReaderPtr reader = subscribe(board);
  EXPECT_OK(put(*board, 1));
  EXPECT_OK(board->finish());
  EXPECT_OK(board->finish());
  EXPECT_EQ(put(*board, 2).code(), Code::kClosed);
  EXPECT_EQ(take(*reader), 1U);
  Incoming message;
  EXPECT_EQ(reader->get(message, Deadline::never()).code(), Code::kClosed);
  EXPECT_TRUE(reader->at_end());
  EXPECT_FALSE(reader->disconnected());
}

TEST_F(BoardTest, FinishingWakesReadersAndWriters) {
  const BoardPtr board = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  const ReaderPtr slow = subscribe(board);
  const BoardPtr other = make();
  const ReaderPtr waiting = subscribe(other);
  EXPECT_OK(put(*board, 1));
  Sleeper puts, gets;
  std::thread writer([&] {
    puts.is_me();
    EXPECT_EQ(put(*board, 2, {}, 20).code(), Code::kClosed);
  });
  std::thread reader([&] {
    gets.is_me();
    Incoming message;
    EXPECT_EQ(waiting->get(message, Deadline::never()).code(), Code::kClosed);
  });
  EXPECT_TRUE(puts.asleep());
  EXPECT_TRUE(gets.asleep());
  EXPECT_OK(board->finish());
  EXPECT_OK(other->finish());
  writer.join();
  reader.join();
}

TEST_F(BoardTest, LeavingWakesAThreadThatWaits) {
  const BoardPtr board = make();
  const ReaderPtr reader = subscribe(board);
  Sleeper gets;
  std::thread waiting([&] {
    gets.is_me();
    Incoming message;
    EXPECT_EQ(reader->get(message, Deadline::never()).code(), Code::kClosed);
  });
  EXPECT_TRUE(gets.asleep());
  reader->leave();
  waiting.join();
}

TEST_F(BoardTest, TheNewestWins) {
  const BoardPtr board = make({.capacity = 2, .keep = 1});
  const ReaderPtr reader = board->newest();
  const ReaderPtr other = board->newest();
  Incoming message;
  EXPECT_EQ(reader->peek(message).code(), Code::kTimeout);
  EXPECT_EQ(reader->get(message, Deadline::after_ns(0)).code(), Code::kTimeout);
  const Shape shape{.bytes = 40, .blocks = {5000}};
  const std::uint64_t ring = held_blocks();
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_OK(put(*board, i, shape, 0));
  EXPECT_EQ(held_blocks(), ring + 1);
  EXPECT_EQ(take(*reader, shape), 5U);
  EXPECT_EQ(reader->seen(), 5U);
  EXPECT_EQ(take(*reader, shape), 0U);  // seen already
  std::uint64_t version = 0;
  EXPECT_OK(reader->peek(message, &version));
  EXPECT_EQ(version, 5U);
  message.clear();
  EXPECT_EQ(take(*other, shape), 5U);
  EXPECT_OK(put(*board, 6, shape));
  EXPECT_EQ(take(*reader, shape), 6U);
}

TEST_F(BoardTest, AReaderOfTheNewestKeepsTheOldOne) {
  const BoardPtr board = make({.capacity = 2, .keep = 1});
  const Shape shape{.bytes = 40, .blocks = {300'000}};
  EXPECT_OK(put(*board, 1, shape));
  Incoming weights;
  EXPECT_OK(board->newest()->get(weights, Deadline::after_seconds(1)));
  for (std::uint64_t i = 2; i < 20; ++i) EXPECT_OK(put(*board, i, shape));
  Findings found;
  EXPECT_EQ(read_message(weights, shape, found), 1U);
  EXPECT_TRUE(found.empty());
}

// Readers of a ring of two slots are overtaken all the time; nothing that they get is torn.
TEST_F(BoardTest, NothingIsTorn) {
  const BoardPtr board = make({.capacity = 2, .keep = 1});
  std::atomic<bool> stop = false;
  const Shape small{.bytes = 1500};
  const Shape large{.bytes = 1400, .blocks = {200}};
  std::vector<std::thread> readers;
  std::atomic<std::uint64_t> seen = 0;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      const ReaderPtr reader = board->newest();
      std::uint64_t last = 0;
      Incoming message;
      while (!stop) {
        if (!reader->get(message, Deadline::after_ns(1'000'000))) continue;
        Findings found;
        const std::uint64_t number = read_message(message, message.leases().empty() ? small : large, found);
        for (const std::string& line : found.lines()) ADD_FAILURE() << line;
        EXPECT_GT(number, last);
        last = number;
        ++seen;
      }
    });
  }
  for (std::uint64_t i = 1; i <= 20'000 || seen < 100; ++i)
    ASSERT_OK(put(*board, i, i % 4 == 0 ? large : small));
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_F(BoardTest, SeveralWritersHaveOneOrder) {
  const BoardPtr board = make({.capacity = 16, .when_slow = WhenSlow::kWait});
  constexpr std::uint64_t kEach = 2000;
  std::vector<std::vector<std::uint64_t>> orders(3);
  std::vector<std::thread> threads;
  for (auto& order : orders) {
    threads.emplace_back([&, reader = subscribe(board)] {
      for (std::uint64_t i = 0; i < 2 * kEach; ++i) order.push_back(take(*reader, {}, 20));
    });
  }
  for (std::uint64_t writer = 1; writer <= 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 1; i <= kEach; ++i) EXPECT_OK(put(*board, writer * 1'000'000 + i, {}, 20));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(orders[0], orders[2]);
}

TEST_F(BoardTest, ChildrenOfASpawnTakeUpAnOfferedBoard) {
  const BoardPtr board = make();
  EXPECT_OK(board->offer(domain().self()));
  Result<BoardPtr> opened = Board::open(hub(), board->id());
  ASSERT_OK(opened);
  EXPECT_OK(put(**opened, 1));
  EXPECT_EQ(board->number(), 1U);
}

TEST_F(BoardTest, BadArguments) {
  EXPECT_EQ(Board::create(hub(), {.capacity = 0}).code(), Code::kInvalid);
  EXPECT_EQ(Board::create(hub(), {.capacity = 0xffffffff}).code(), Code::kInvalid);
  EXPECT_EQ(Board::create(hub(), {.capacity = 4, .keep = 5}).code(), Code::kInvalid);
  EXPECT_EQ(Board::create(hub(), {.slot_bytes = 100}).code(), Code::kInvalid);
  const BoardPtr board = make();
  EXPECT_EQ(Board::open(hub(), {board->id().index, board->id().generation + 1}).code(), Code::kInvalid);
  EXPECT_EQ(Board::open(hub(), {77, 1}).code(), Code::kInvalid);
  EXPECT_EQ(board->wait_readers(channel::kMostReaders + 1, Deadline::never()).code(), Code::kInvalid);
  const LeasePtr block = allocate(Kind::kShare, 64);
  const std::vector<LeasePtr> twice{block, block};
  EXPECT_EQ(board->put({.leases = twice}, Deadline::never()).code(), Code::kInvalid);
  EXPECT_TRUE(block->held());
}

TEST_F(BoardTest, OneReaderMoreThanThereArePlaces) {
  const BoardPtr board = make();
  std::vector<ReaderPtr> readers;
  for (std::uint32_t i = 0; i < channel::kMostReaders; ++i) readers.push_back(subscribe(board));
  EXPECT_EQ(board->subscribe().code(), Code::kNoSpace);
  readers[5].reset();
  readers[5] = subscribe(board);
  EXPECT_OK(put(*board, 1));
  for (const ReaderPtr& reader : readers) EXPECT_EQ(take(*reader), 1U);
}

// A damaged message costs that message.
TEST_F(BoardTest, DamageCostsOneMessage) {
  const BoardPtr board = make({.capacity = 4});
  const ReaderPtr reader = subscribe(board);
  const Shape shape{.bytes = 40, .blocks = {64}};
  EXPECT_OK(put(*board, 1, shape));
  EXPECT_OK(put(*board, 2, shape));
  channel::BoardRow& row = hub().boards().unchecked_row(board->id().index);
  std::byte* slot = hub().boards().slot(row, 0);
  const std::uint64_t absurd = 0xffff'ffff'ffff'ffffU;
  channel::write_racing(slot + sizeof(channel::SlotHeader), &absurd, 8);
  Incoming message;
  EXPECT_EQ(reader->get(message, Deadline::after_seconds(1)).code(), Code::kCorrupt);
  EXPECT_EQ(take(*reader, shape), 2U);
  channel::write_racing(hub().boards().slot(row, 2) + 8, &absurd, 8);
  EXPECT_EQ(audit_of(hub()), "");
}

class TinyBoardTest : public BoardTest {
 protected:
  TinyBoardTest() : BoardTest(kTinyDomain) {}
};

TEST_F(TinyBoardTest, RunsOutOfPlacesWithAnError) {
  std::vector<BoardPtr> boards;
  for (;;) {
    Result<BoardPtr> made = Board::create(hub(), {.capacity = 1, .slot_bytes = 128});
    if (!made) {
      EXPECT_EQ(made.code(), Code::kNoSpace);
      break;
    }
    boards.push_back(*std::move(made));
  }
  EXPECT_EQ(boards.size(), hub().boards().capacity());
  boards.pop_back();
  EXPECT_OK(Board::create(hub(), {.capacity = 1, .slot_bytes = 128}));
}

}  // namespace
}  // namespace forklift::test
