// Tests over boards, in a domain of their own (hub_fixture.h).
//
//   TEST_F(BoardTest, ...) { const BoardPtr board = make(); ReaderPtr reader = subscribe(board); put(*board,
//   1); }
#pragma once

#include <gtest/gtest.h>

#include "channel/board.h"
#include "support/hub_fixture.h"
#include "support/numbered_message.h"

namespace forklift::test {

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

}  // namespace forklift::test
