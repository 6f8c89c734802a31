// Boards: what every reader sees, what is kept and released, what happens to the slow and the dead.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "channel/board.h"
#include "channel/boards.h"
#include "support/hub_fixture.h"
#include "support/numbered_message.h"

namespace forklift::test {
namespace {

using channel::Board;
using channel::BoardOptions;
using channel::BoardPtr;
using channel::Reader;
using channel::ReaderPtr;
using channel::WhenSlow;
using os::Deadline;

class BoardTest : public HubFixture {
 protected:
  explicit BoardTest(const domain::Options& options = {}) : HubFixture(options) {}

  BoardPtr make(const BoardOptions& options = {}) {
    Result<BoardPtr> made = Board::create(hub(), options);
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  static ReaderPtr subscribe(const BoardPtr& board, bool from_oldest = false) {
    Result<ReaderPtr> made = board->subscribe(from_oldest);
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  Status put(Board& board, std::uint64_t number, const Shape& shape = {}, double seconds = 5) {
    return Message(hub(), shape, number).put(board, Deadline::after_seconds(seconds));
  }
  // The number of the next message; 0 when there is none.
  static std::uint64_t take(Reader& reader, const Shape& shape = {}, double seconds = 0) {
    Incoming message;
    const Status got = reader.get(message, Deadline::after_seconds(seconds));
    if (!got) {
      EXPECT_EQ(got.code(), Code::kTimeout) << got.to_string();
      return 0;
    }
    Findings found;
    const std::uint64_t number = read_message(message, shape, found);
    for (const std::string& line : found.lines()) ADD_FAILURE() << line;
    return number;
  }
  std::uint64_t held_blocks() { return arena().stats().held_blocks; }
};

TEST_F(BoardTest, EveryReaderGetsEveryMessageFromWhenItCame) {
  const BoardPtr board = make();
  EXPECT_OK(put(*board, 1));
  const ReaderPtr early = subscribe(board);
  EXPECT_OK(put(*board, 2));
  const ReaderPtr late = subscribe(board);
  EXPECT_OK(put(*board, 3));
  EXPECT_EQ(board->readers(), 2U);
  EXPECT_EQ(early->behind(), 2U);
  EXPECT_EQ(take(*early), 2U);
  EXPECT_EQ(take(*early), 3U);
  EXPECT_EQ(take(*early), 0U);
  EXPECT_EQ(take(*late), 3U);
  EXPECT_EQ(take(*late), 0U);
  EXPECT_EQ(early->missed() + late->missed(), 0U);
}

TEST_F(BoardTest, AMessageOfAnySizeArrivesWhole) {
  const BoardPtr board = make({.capacity = 4});
  const ReaderPtr first = subscribe(board);
  const ReaderPtr second = subscribe(board);
  std::uint64_t number = 0;
  for (const Shape& shape :
       {Shape{.bytes = 16}, Shape{.bytes = 2015}, Shape{.bytes = 2016}, Shape{.bytes = 2017},
        Shape{.bytes = 100'000}, Shape{.bytes = 40, .blocks = {64, 5000}},
        Shape{.bytes = 3000, .blocks = {64, 70'000, 8}}, Shape{.bytes = 40, .blocks = {20'000}}}) {
    ASSERT_OK(put(*board, ++number, shape));
    EXPECT_EQ(take(*first, shape), number) << shape.bytes;
    EXPECT_EQ(take(*second, shape), number) << shape.bytes;
  }
}

TEST_F(BoardTest, AllReadersSeeOneCopy) {
  const BoardPtr board = make();
  const ReaderPtr first = subscribe(board);
  const ReaderPtr second = subscribe(board);
  const LeasePtr block = allocate(Kind::kShare, 4096);
  const std::byte* memory = block->data();
  EXPECT_OK(board->put({.leases = {&block, 1}}, Deadline::after_seconds(1)));
  EXPECT_FALSE(block->held());
  Incoming one;
  Incoming two;
  EXPECT_OK(first->get(one, Deadline::after_seconds(1)));
  EXPECT_OK(second->get(two, Deadline::after_seconds(1)));
  ASSERT_EQ(one.leases().size(), 1U);
  EXPECT_EQ(one.leases()[0]->data(), memory);
  EXPECT_EQ(two.leases()[0]->data(), memory);
}

TEST_F(BoardTest, BlocksGoWhenTheLastReaderHasPassed) {
  const BoardPtr board = make({.capacity = 8});
  const std::uint64_t ring = held_blocks();
  const ReaderPtr first = subscribe(board);
  const ReaderPtr second = subscribe(board);
  const Shape shape{.bytes = 40, .blocks = {5000, 64}};
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_OK(put(*board, i, shape));
  EXPECT_EQ(held_blocks(), ring + 6);
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(take(*first, shape), i);
  EXPECT_EQ(held_blocks(), ring + 6);
  EXPECT_EQ(take(*second, shape), 1U);
  EXPECT_EQ(held_blocks(), ring + 4);
  second->leave();
  EXPECT_EQ(held_blocks(), ring);
  EXPECT_EQ(board->readers(), 1U);
  // Without readers nothing stays at all.
  first->leave();
  EXPECT_OK(put(*board, 4, shape));
  EXPECT_EQ(held_blocks(), ring);
}

TEST_F(BoardTest, AReaderKeepsWhatItReceived) {
  const BoardPtr board = make({.capacity = 1});
  const ReaderPtr reader = subscribe(board);
  const Shape shape{.bytes = 40, .blocks = {5000}};
  EXPECT_OK(put(*board, 1, shape));
  Incoming kept;
  EXPECT_OK(reader->get(kept, Deadline::after_seconds(1)));
  for (std::uint64_t i = 2; i < 40; ++i) EXPECT_OK(put(*board, i, shape));
  Findings found;
  EXPECT_EQ(read_message(kept, shape, found), 1U);
  EXPECT_TRUE(found.empty());
}

TEST_F(BoardTest, KeptMessagesAreForReadersToCome) {
  const BoardPtr board = make({.capacity = 4, .keep = 2});
  const Shape shape{.bytes = 40, .blocks = {64}};
  const std::uint64_t ring = held_blocks();
  for (std::uint64_t i = 1; i <= 10; ++i) EXPECT_OK(put(*board, i, shape));
  EXPECT_EQ(held_blocks(), ring + 2);
  const ReaderPtr reader = subscribe(board, true);
  EXPECT_EQ(take(*reader, shape), 9U);
  EXPECT_EQ(take(*reader, shape), 10U);
  EXPECT_EQ(take(*reader, shape), 0U);
  EXPECT_EQ(held_blocks(), ring + 2);
  for (std::uint64_t i = 11; i <= 13; ++i) EXPECT_OK(put(*board, i, shape));
  EXPECT_EQ(held_blocks(), ring + 3);  // the reader has not seen 11
  EXPECT_EQ(take(*subscribe(board, true), shape), 11U);
}

TEST_F(BoardTest, ASlowReaderMissesTheOldestAndIsTold) {
  const BoardPtr board = make({.capacity = 4});
  const ReaderPtr slow = subscribe(board);
  const ReaderPtr fast = subscribe(board);
  const Shape shape{.bytes = 40, .blocks = {64}};
  for (std::uint64_t i = 1; i <= 10; ++i) {
    EXPECT_OK(put(*board, i, shape, 0));
    EXPECT_EQ(take(*fast, shape), i);
  }
  EXPECT_EQ(slow->behind(), 4U);
  for (std::uint64_t i = 7; i <= 10; ++i) EXPECT_EQ(take(*slow, shape), i);
  EXPECT_EQ(slow->missed(), 6U);
  EXPECT_EQ(fast->missed(), 0U);
}

TEST_F(BoardTest, ASlowReaderIsDisconnected) {
  const BoardPtr board = make({.capacity = 2, .when_slow = WhenSlow::kDisconnect});
  const ReaderPtr slow = subscribe(board);
  for (std::uint64_t i = 1; i <= 2; ++i) EXPECT_OK(put(*board, i));
  EXPECT_EQ(take(*slow), 1U);  // just in time
  for (std::uint64_t i = 3; i <= 5; ++i) EXPECT_OK(put(*board, i));
  Incoming message;
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(slow->get(message, Deadline::after_seconds(1)).code(), Code::kClosed);
    EXPECT_TRUE(slow->disconnected());
  }
  EXPECT_GE(slow->missed(), 2U);
  EXPECT_EQ(board->readers(), 0U);
}

TEST_F(BoardTest, AWriterWaitsForASlowReader) {
  const BoardPtr board = make({.capacity = 2, .when_slow = WhenSlow::kWait});
  for (std::uint64_t i = 1; i <= 5; ++i) EXPECT_OK(put(*board, i, {}, 0));  // nobody reads: nobody waits
  const ReaderPtr reader = subscribe(board);
  EXPECT_OK(put(*board, 6, {}, 0));
  EXPECT_OK(put(*board, 7, {}, 0));
  EXPECT_EQ(put(*board, 8, {}, 0).code(), Code::kTimeout);
  EXPECT_EQ(put(*board, 8, {}, 0.05).code(), Code::kTimeout);
  std::thread writer([&] {
    for (std::uint64_t i = 8; i <= 200; ++i) EXPECT_OK(put(*board, i, {}, 10));
  });
  for (std::uint64_t i = 6; i <= 200; ++i) EXPECT_EQ(take(*reader, {}, 10), i);
  writer.join();
  EXPECT_EQ(reader->missed(), 0U);
}

TEST_F(BoardTest, ALeavingReaderLetsTheWriterGoOn) {
  const BoardPtr board = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  const ReaderPtr reader = subscribe(board);
  EXPECT_OK(put(*board, 1));
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    reader->leave();
  });
  EXPECT_OK(put(*board, 2, {}, 10));
  leaving.join();
}

TEST_F(BoardTest, ADeadReaderHoldsNobodyUp) {
  const BoardPtr board = make({.capacity = 2, .when_slow = WhenSlow::kWait});
  Gate ready;
  Child child([&] {
    const ReaderPtr reader = subscribe(board);
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_OK(put(*board, 1, {.bytes = 40, .blocks = {64}}));
  EXPECT_OK(put(*board, 2));
  EXPECT_EQ(put(*board, 3, {}, 0).code(), Code::kTimeout);
  child.kill_now();
  EXPECT_OK(put(*board, 3, {}, 0));  // it is looked after before anything is waited for
  EXPECT_EQ(board->readers(), 0U);
}

TEST_F(BoardTest, AReaderThatDiesWhileItIsWaitedForIsForgotten) {
  const BoardPtr board = make({.capacity = 1, .when_slow = WhenSlow::kWait});
  Gate ready;
  Child child([&] {
    const ReaderPtr reader = subscribe(board);
    ready.open();
    ::usleep(100'000);
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_OK(put(*board, 1));
  EXPECT_OK(put(*board, 2, {}, 10));
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST_F(BoardTest, AChildReadsWhatItsParentPuts) {
  const BoardPtr board = make({.capacity = 8, .when_slow = WhenSlow::kWait});
  const Shape shape{.bytes = 40, .blocks = {5000}};
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.emplace_back([&] {
      const ReaderPtr reader = subscribe(board);
      for (std::uint64_t number = 1; number <= 100; ++number) EXPECT_EQ(take(*reader, shape, 10), number);
    });
  }
  ASSERT_OK(board->wait_readers(3, Deadline::after_seconds(10)));
  for (std::uint64_t number = 1; number <= 100; ++number) EXPECT_OK(put(*board, number, shape, 10));
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(board->readers(), 0U);
}

TEST_F(BoardTest, ASubscriptionBelongsToItsProcess) {
  const BoardPtr board = make();
  const ReaderPtr reader = subscribe(board);
  Child child([&] {
    Incoming message;
    EXPECT_EQ(reader->get(message, Deadline::after_seconds(1)).code(), Code::kRefused);
    reader->leave();
  });
  EXPECT_EQ(child.wait(), 0);
  domain().reap();
  EXPECT_EQ(board->readers(), 1U);
  EXPECT_OK(put(*board, 1));
  EXPECT_EQ(take(*reader), 1U);
}

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
  std::thread writer([&] { EXPECT_EQ(put(*board, 2, {}, 20).code(), Code::kClosed); });
  std::thread reader([&] {
    Incoming message;
    EXPECT_EQ(waiting->get(message, Deadline::never()).code(), Code::kClosed);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_OK(board->finish());
  EXPECT_OK(other->finish());
  writer.join();
  reader.join();
}

TEST_F(BoardTest, LeavingWakesAThreadThatWaits) {
  const BoardPtr board = make();
  const ReaderPtr reader = subscribe(board);
  std::thread waiting([&] {
    Incoming message;
    EXPECT_EQ(reader->get(message, Deadline::never()).code(), Code::kClosed);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
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
