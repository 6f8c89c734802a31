// What a put writes, worked out before any lock is taken.
#pragma once

#include "channel/channel.h"

namespace forklift::channel {

struct Channel::Plan {
  Plan(const Outgoing& outgoing, int bell_fd) : message(outgoing), bell(bell_fd) {}

  const Outgoing& message;
  int bell;  // the descriptor that is rung; -1: none
  RecordHeader header{};
  arena::LeasePtr spill;  // holds handles and bytes when they do not fit inline

  std::uint64_t weight() const noexcept { return header.weight; }
};

}  // namespace forklift::channel
