// What a put writes, worked out before any lock is taken.
#pragma once

#include "channel/channel.h"

namespace forklift::channel {

struct Channel::Plan {
  explicit Plan(const Outgoing& outgoing) : message(outgoing) {}

  const Outgoing& message;
  RecordHeader header{};
  arena::LeasePtr spill;  // holds handles and bytes when they do not fit inline

  std::uint64_t weight() const noexcept { return header.weight; }
};

}  // namespace forklift::channel
