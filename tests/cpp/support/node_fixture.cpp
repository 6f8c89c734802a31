#include "support/node_fixture.h"

namespace forklift::test {

using arena::LeasePtr;
using channel::Channel;
using channel::ChannelPtr;
using channel::Incoming;
using node::Node;
using os::Deadline;

void NodeFixture::SetUp() {
  Result<std::unique_ptr<Node>> made = Node::create(options_);
  ASSERT_OK(made);
  node_ = *std::move(made);
}

void NodeFixture::TearDown() {
  if (!node_) return;
  EXPECT_EQ(audit_of(*node_), "");
  const arena::Stats stats = arena().stats();
  EXPECT_EQ(stats.held_blocks, 0U);
  EXPECT_EQ(stats.leases, 0U);
  EXPECT_EQ(node_->channels().live(), 0U);
  EXPECT_EQ(node_->topics().live_topics(), 0U);
  node_.reset();
}

LeasePtr NodeFixture::allocate(arena::Kind kind, std::size_t bytes, bool zeroed) {
  Result<LeasePtr> block = arena().allocate(kind, bytes, zeroed);
  EXPECT_OK(block);
  return block ? *std::move(block) : nullptr;
}

ChannelPtr NodeFixture::make_channel(const channel::ChannelOptions& options) {
  Result<ChannelPtr> made = Channel::create(node_->channels(), options);
  EXPECT_OK(made);
  return made ? *std::move(made) : nullptr;
}

LeasePtr NodeFixture::pass(const ChannelPtr& through, LeasePtr block) {
  EXPECT_OK(through->put({.leases = {&block, 1}}, Deadline::after_seconds(10)));
  EXPECT_FALSE(block->held());
  Incoming message;
  EXPECT_OK(through->get(message, Deadline::after_seconds(10)));
  if (message.leases().size() != 1) return nullptr;
  return message.leases().front();
}

std::string audit_of(Node& node) {
  std::string all;
  for (const std::string& line : node.audit()) all += line + "\n";
  return all;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string text_of(const Incoming& message) {
  return {reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()};
}

Status put_text(Channel& channel, const std::string& text, double seconds) {
  return channel.put({.bytes = bytes_of(text)}, Deadline::after_seconds(seconds));
}

Result<std::string> get_text(Channel& channel, double seconds) {
  Incoming message;
  if (Status status = channel.get(message, Deadline::after_seconds(seconds)); !status) return status;
  return text_of(message);
}

}  // namespace forklift::test
