// How messages enter and leave an endpoint, for transfer.cpp and loan.cpp: time-outs and stops as answers, failures as exceptions.
//
//   Received message;
//   if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;   // the wait is over
//   use(payload_of(*message));
//
// Thread safety: as of the endpoint; a Received is its thread's.
#pragma once

#include "api/stop.h"
#include "channel/channel.h"
#include "forklift/detail/endpoint.h"
#include "forklift/detail/timeout.h"
#include "forklift/error.h"
#include "message/message_builder.h"
#include "node/memory_wait.h"

namespace forklift::inline abi_0_1::detail {

// This thread's message, without an allocation on its way. Nobody calls back into a queue while it is in use, but for
// destructors of tensors, which run after it was emptied. Empties it also where unpacking fails.
class Received {
 public:
  Received() noexcept;
  ~Received() {
    message_.aim({});
    if (!message_.leases().empty() || !message_.bytes_are_private()) message_.clear();
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  channel::Incoming* operator->() noexcept { return &message_; }
  channel::Incoming& operator*() noexcept { return message_; }

 private:
  channel::Incoming& message_;
};

[[noreturn]] void throw_empty_handle();
// Throws where the endpoint is closed, or only receives.
arena::Arena& sending_arena(Endpoint endpoint);

Status put_message(Endpoint endpoint, const channel::Outgoing& message, Limit limit);
// False: the wait is over. A message of another codec or type is gone then, and a TypeMismatch; but that one which was
// lent arrives as a raw one.
bool receive(Received& message, Endpoint endpoint, std::uint8_t codec, std::uint64_t type, Limit limit);
// As receive() checks a message: TypeMismatch.
void check_mismatch(const channel::Incoming& message, std::uint8_t codec, std::uint64_t type);
inline void check_kind(const channel::Incoming& message, std::uint8_t codec, std::uint64_t type) {
  if (message.codec() != codec || (type != 0 && message.tag() != type)) [[unlikely]]
    check_mismatch(message, codec, type);
}
// A raw message's bytes, or where it was lent the block's. Error (kCorrupt).
std::span<const std::byte> payload_of(channel::Incoming& message);

// `attempt(limit)`, again while there is no memory, as long as the caller would wait for room.
template <class Attempt>
bool put_with_memory(Endpoint endpoint, std::size_t bytes, Limit limit, Attempt&& attempt) {
  Status status = attempt(limit);
  if (status.code() != Code::kOverBudget || limit.ns == 0) [[likely]]
    return settled(status);
  const os::Deadline until = deadline_of(limit);
  StopHooks hooks(stop_of(limit));
  node::MemoryWait memory(sending_arena(endpoint), bytes, until);
  while (memory.again(status, &hooks)) {
    Limit left = limit;
    if (left.ns != kForever) left.ns = until.left_ns(left.ns);
    status = attempt(left);
  }
  return settled(status);
}

}  // namespace forklift::inline abi_0_1::detail
