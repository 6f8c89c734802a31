#include "forklift/loan.h"

#include <algorithm>
#include <bit>
#include <string>

#include "api/transfer.h"
#include "message/loan.h"
#include "node/endpoint.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::detail {

namespace {

// Which process this is, without a system call: its slot and generation, which no other process has.
std::uint64_t owner_here(const arena::Lease& lease) noexcept {
  const domain::SlotRef self = lease.arena().domain().self();
  return (std::uint64_t{self.generation} << 32) | self.index;
}

}  // namespace

std::size_t loan_bytes(std::size_t count, std::size_t item, std::size_t before) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, item, &bytes) || __builtin_add_overflow(bytes, before, &bytes) ||
      bytes > static_cast<std::size_t>(INT64_MAX))
    throw Error({Code::kInvalid,
                 "a loan of " + std::to_string(count) + " items of " + std::to_string(item) + " bytes"});
  return bytes;
}

LoanedBytes LoanedBytes::lend(Endpoint endpoint, std::shared_ptr<const void> keep, std::size_t bytes,
                              std::size_t alignment) {
  // A block is aligned to a cache line, and to a page where it has one.
  constexpr std::size_t kLine = 64;
  const std::size_t asked = std::max(bytes, alignment > kLine ? kMostAligned : std::size_t{1});
  LoanedBytes made;
  arena::Arena& arena = sending_arena(endpoint);
  const channel::Channel* const channel = node::outgoing_channel(endpoint);
  const int near = channel != nullptr ? channel->reader_node(asked) : arena::kAnyNode;
  arena::LeasePtr lease = value_or_throw(arena.allocate(arena::Kind::kShare, asked, false, near));
  made.keep_ = std::move(keep);
  made.endpoint_ = endpoint;
  made.data_ = lease->data();
  made.bytes_ = bytes;
  made.owner_ = owner_here(*lease);
  made.lease_ = std::move(lease);
  return made;
}

bool LoanedBytes::publish(std::uint64_t type, Limit limit) {
  struct Put {
    Endpoint endpoint;
    std::uint64_t type;
  } const put{endpoint_, type};
  return publish_by(
      [](const void* context, const channel::Outgoing& lent, Limit most) {
        const auto& [endpoint, tag] = *static_cast<const Put*>(context);
        channel::Outgoing message = lent;
        message.tag = tag;
        return put_with_memory(endpoint, 0, most,
                               [&, &to = endpoint](Limit left) { return put_message(to, message, left); });
      },
      &put, limit);
}

bool LoanedBytes::publish_by(PutLent put, const void* context, Limit limit) {
  (void)data();
  if (owner_ != owner_here(*static_cast<const arena::Lease*>(lease_.get())))
    throw Error({Code::kInvalid, "a forked child publishes a loan of its parent: it can only read it"});
  const message::LoanHead head = message::lent_head(bytes_);
  // Moved, so that this process has one reference only, which goes along with the message.
  arena::LeasePtr lease = std::static_pointer_cast<arena::Lease>(std::move(lease_));
  bool done = false;
  try {
    done = put(context, {head, {&lease, 1}, message::kLoanCodec, 0}, limit);
  } catch (...) {
    lease_ = std::move(lease);
    throw;
  }
  if (done) {
    *this = LoanedBytes();
  } else {
    lease_ = std::move(lease);
  }
  return done;
}

bool LoanedBytes::borrow(Endpoint endpoint, std::uint64_t type, std::size_t alignment, Limit limit,
                         LoanedBytes& into) {
  Received message;
  if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;
  into = of_message(*message, alignment);
  return true;
}

LoanedBytes LoanedBytes::of_message(channel::Incoming& message, std::size_t alignment) {
  LoanedBytes into;
  const std::span<const std::byte> bytes = payload_of(message);
  into.bytes_ = bytes.size();
  if (message.codec() == message::kLoanCodec) {
    into.lease_ = std::move(message.leases().front());
    message.leases().clear();
  } else if (!message.bytes_are_private()) {
    into.lease_ = message.take_spill();
  }
  // Nobody writes to it any more; only Loaned<const T> is made of it.
  into.data_ = const_cast<std::byte*>(bytes.data());
  if (into.lease_ && std::bit_cast<std::uintptr_t>(into.data_) % alignment == 0) return into;
  into.copy_.reset(static_cast<std::byte*>(
      ::operator new[](bytes.empty() ? 1 : bytes.size(), std::align_val_t{kMostAligned})));
  if (!bytes.empty()) sync::copy_bytes(into.copy_.get(), bytes.data(), bytes.size());
  into.data_ = into.copy_.get();
  into.lease_.reset();
  return into;
}

void LoanedBytes::throw_used_up() {
  throw Error({Code::kClosed, "this loan was published, given back or moved from"});
}

}  // namespace forklift::inline abi_0_1::detail
