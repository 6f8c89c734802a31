// A message whose bytes its sender wrote straight into a block of the arena.
//
//   put({lent_head(bytes), {&lease, 1}, kLoanCodec, type});
//   Result<std::span<const std::byte>> bytes = lent_bytes(incoming);
//
// The message's own bytes are a head that says how many of the block's bytes count. The block has kind share, so that any
// number of readers of a topic see it in place.
//
// Thread safety: as the message's.
#pragma once

#include <array>
#include <cstring>
#include <span>

#include "channel/channel.h"

namespace forklift::inline abi_0_1::message {

using LoanHead = std::array<std::byte, sizeof(std::uint64_t)>;

inline LoanHead lent_head(std::uint64_t bytes) noexcept {
  LoanHead head;
  std::memcpy(head.data(), &bytes, sizeof bytes);
  return head;
}

// kCorrupt: no such message, or more bytes than the block has.
inline Result<std::span<const std::byte>> lent_bytes(channel::Incoming& message) {
  std::uint64_t bytes = 0;
  const auto& leases = message.leases();
  if (message.bytes().size() != sizeof bytes || leases.size() != 1 || leases.front()->data() == nullptr)
    return Status(Code::kCorrupt, "a lent message without its block");
  std::memcpy(&bytes, message.bytes().data(), sizeof bytes);
  if (bytes > leases.front()->size())
    return Status(Code::kCorrupt, "a lent message of " + std::to_string(bytes) + " bytes in a block of " +
                                      std::to_string(leases.front()->size()));
  return std::span<const std::byte>(leases.front()->data(), bytes);
}

}  // namespace forklift::inline abi_0_1::message
