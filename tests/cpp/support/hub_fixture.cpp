#include "support/hub_fixture.h"

namespace forklift::test {

using arena::LeasePtr;
using channel::Channel;
using channel::ChannelPtr;
using channel::Hub;
using channel::Incoming;
using os::Deadline;

void HubFixture::SetUp() {
  Result<std::unique_ptr<Hub>> made = Hub::create(options_);
  ASSERT_OK(made);
  hub_ = *std::move(made);
}

void HubFixture::TearDown() {
  if (!hub_) return;
  EXPECT_EQ(audit_of(*hub_), "");
  const arena::Stats stats = arena().stats();
  EXPECT_EQ(stats.held_blocks, 0U);
  EXPECT_EQ(stats.leases, 0U);
  EXPECT_EQ(hub_->live_channels(), 0U);
  EXPECT_EQ(hub_->boards().live_boards(), 0U);
  hub_.reset();
}

LeasePtr HubFixture::allocate(arena::Kind kind, std::size_t bytes, bool zeroed) {
  Result<LeasePtr> block = arena().allocate(kind, bytes, zeroed);
  EXPECT_OK(block);
  return block ? *std::move(block) : nullptr;
}

ChannelPtr HubFixture::make_channel(const channel::ChannelOptions& options) {
  Result<ChannelPtr> made = Channel::create(*hub_, options);
  EXPECT_OK(made);
  return made ? *std::move(made) : nullptr;
}

LeasePtr HubFixture::pass(const ChannelPtr& through, LeasePtr block) {
  EXPECT_OK(through->put({.leases = {&block, 1}}, Deadline::after_seconds(10)));
  EXPECT_FALSE(block->held());
  Incoming message;
  EXPECT_OK(through->get(message, Deadline::after_seconds(10)));
  if (message.leases().size() != 1) return nullptr;
  return message.leases().front();
}

std::string audit_of(Hub& hub) {
  std::string all;
  for (const std::string& line : hub.audit()) all += line + "\n";
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
