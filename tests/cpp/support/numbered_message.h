// Numbered messages whose every byte is known, for tests in which processes die.
//
//   must(Message(node, shape, 17).put(channel));
//   Findings found;
//   EXPECT_EQ(read_message(incoming, shape, found), 17);
//   EXPECT_TRUE(found.empty());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "channel/channel.h"
#include "node/node.h"
#include "topic/topic.h"

namespace forklift::test {

using arena::Kind;
using arena::LeasePtr;
using channel::ChannelOptions;
using channel::ChannelPtr;
using channel::Incoming;
using node::Node;

// What is wrong, in words.
class Findings {
 public:
  void add(std::string what) { lines_.push_back(std::move(what)); }
  void add(const std::vector<std::string>& lines) { lines_.insert(lines_.end(), lines.begin(), lines.end()); }
  bool empty() const noexcept { return lines_.empty(); }
  const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::string> lines_;
};

// What a message is made of; its number decides every byte.
struct Shape {
  std::size_t bytes = 16;                // at least 16: number and length come first
  std::vector<std::size_t> blocks = {};  // sizes of the leases that travel with it
  Kind kind = Kind::kShare;
};

class Message {
 public:
  // Allocates and fills the leases: everything that comes before a put. Aborts on failure.
  Message(Node& node, const Shape& shape, std::uint64_t number);
  // Refers to this object.
  channel::Outgoing outgoing() const noexcept {
    return {.bytes = bytes_, .leases = leases_, .codec = 7, .tag = 42};
  }
  Status put(channel::Channel& channel, os::Deadline deadline = os::Deadline::after_seconds(2));
  Status put(topic::Topic& topic, os::Deadline deadline = os::Deadline::after_seconds(2));

 private:
  std::vector<std::byte> bytes_;
  std::vector<LeasePtr> leases_;
};

// The number of a received message; adds to `found` when a single byte is not what its number says.
std::uint64_t read_message(Incoming& message, const Shape& shape, Findings& found);

// A message object that has its buffer: making that is nothing that one wants to step.
std::unique_ptr<Incoming> used_before(Node& node);

void fill_pattern(std::byte* data, std::size_t size, std::uint64_t seed);
bool is_pattern(const std::byte* data, std::size_t size, std::uint64_t seed);

// For a child: the operation cannot go on.
void must(const Status& status);
template <class T>
T must(Result<T> result) {
  must(result.status());
  return *std::move(result);
}

}  // namespace forklift::test
