// Tests over topics, in a domain of their own (hub_fixture.h).
//
//   TEST_F(BoardTest, ...) { const TopicPtr topic = make(); ReaderPtr reader = subscribe(topic); put(*topic,
//   1); }
#pragma once

#include <gtest/gtest.h>

#include "support/node_fixture.h"
#include "support/numbered_message.h"
#include "topic/topic.h"

namespace forklift::test {

using os::Deadline;
using topic::Reader;
using topic::ReaderPtr;
using topic::Topic;
using topic::TopicOptions;
using topic::TopicPtr;
using topic::WhenSlow;

class TopicTest : public NodeFixture {
 protected:
  explicit TopicTest(const domain::Options& options = {}) : NodeFixture(options) {}

  TopicPtr make(const TopicOptions& options = {}) {
    Result<TopicPtr> made = Topic::create(node().topics(), options);
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  static ReaderPtr subscribe(const TopicPtr& topic, bool from_oldest = false) {
    Result<ReaderPtr> made = topic->subscribe(from_oldest);
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  Status put(Topic& topic, std::uint64_t number, const Shape& shape = {}, double seconds = 5) {
    return Message(node(), shape, number).put(topic, Deadline::after_seconds(seconds));
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
