// Tests over a domain of their own: made before each, audited, emptied and destroyed after it.
//
//   TEST_F(MyTest, ...) { LeasePtr block = allocate(Kind::kShare, 4096); ... }
//
// Nothing may be held when the test ends: leases, messages, channels. What is still there is a failure.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "channel/channel.h"
#include "node/node.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift::test {

class NodeFixture : public testing::Test {
 protected:
  explicit NodeFixture(const domain::Options& options = {}) : options_(options) {}
  void SetUp() override;
  void TearDown() override;

  node::Node& node() { return *node_; }
  arena::Arena& arena() { return node_->arena(); }
  domain::Domain& domain() { return node_->domain(); }

  // nullptr and a failure when there is none.
  arena::LeasePtr allocate(arena::Kind kind, std::size_t bytes, bool zeroed = false);
  channel::ChannelPtr make_channel(const channel::ChannelOptions& options = {});
  // Sends the block through a channel of one message and takes it again: the holder and the row change hands.
  arena::LeasePtr pass(const channel::ChannelPtr& through, arena::LeasePtr block);

  std::unique_ptr<node::Node> node_;
  const domain::Options options_;
};

// 64 MiB of data in two halves: small enough to fill.
inline constexpr domain::Options kTinyDomain{.address_space_bytes = std::uint64_t{256} << 20};

// What the audit finds, one line each; "" when all is well.
std::string audit_of(node::Node& node);

// Bytes of a text, and back.
std::span<const std::byte> bytes_of(const std::string& text);
std::string text_of(const channel::Incoming& message);

// Puts and gets without leases.
Status put_text(channel::Channel& channel, const std::string& text, double seconds = 10);
Result<std::string> get_text(channel::Channel& channel, double seconds = 10);

}  // namespace forklift::test
