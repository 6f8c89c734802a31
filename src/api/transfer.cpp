// What queues, pipes, broadcasts have in common: how a T travels.
#include "forklift/detail/transfer.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "api/transfer.h"
#include "channel/pipe.h"
#include "forklift/broadcast.h"
#include "forklift/claim.h"
#include "message/loan.h"
#include "message/transport.h"
#include "node/endpoint.h"
#include "node/wait_any.h"
#include "sync/past_caches.h"
#include "tensor/access.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::detail {
namespace {

channel::Incoming& incoming() {
  thread_local channel::Incoming message;
  return message;
}

// A pipe's reader sleeps in poll: what wakes it for a stop is a descriptor beside it.
Status receive_from(channel::PipeEnd& pipe, channel::Incoming& message, Limit limit) {
  const os::Deadline until = deadline_of(limit);
  if (limit.stop == nullptr) [[likely]]
    return pipe.receive(message, until);
  const node::Source source{.pipe = &pipe};
  std::vector<std::size_t> ready;
  for (;;) {
    Status got = pipe.receive(message, os::Deadline::after_ns(0));
    if (got.code() != Code::kTimeout || until.passed()) return got;
    if (Status there = node::wait_any({&source, 1}, until, *limit.stop, ready); !there) return there;
  }
}

Status receive_from(channel::Channel& channel, channel::Incoming& message, Limit limit) {
  const os::Deadline until = deadline_of(limit);
  return wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return channel.get(message, until, hooks); },
      [&channel] { channel.wake_all(); });
}

Status receive_from(ClaimHold& hold, channel::Incoming& message, Limit limit) {
  channel::Channel* channel = hold.channel();
  if (channel == nullptr) throw_empty_handle();
  channel::Receipt receipt;
  bool holds_last = hold.open();
  const channel::Receipt last = hold.release();
  const auto claim = [&](os::Deadline until, channel::WaitHooks* hooks) {
    return std::exchange(holds_last, false) ? channel->claim_next(last, message, receipt, until, hooks)
                                            : channel->claim(message, receipt, until, hooks);
  };
  Status got;
  if (limit.stop == nullptr && limit.ns == kForever) [[likely]] {
    got = claim(os::Deadline::never(), nullptr);
  } else {
    const os::Deadline until = deadline_of(limit);
    got = wait_stoppable(
        until.passed() ? nullptr : limit.stop, [&](channel::WaitHooks* hooks) { return claim(until, hooks); },
        [channel] { channel->wake_all(); });
  }
  if (holds_last) (void)channel->acknowledge_open(last);  // a stop came before the first look
  if (got) hold.fill(receipt.place, receipt.state);
  return got;
}

Status receive_from(topic::Reader& reader, bool peek, channel::Incoming& message, Limit limit) {
  if (peek) return reader.peek(message);
  const os::Deadline until = deadline_of(limit);
  Status got = wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return reader.get(message, until, hooks); },
      [&reader] { reader.topic()->wake_all(); });
  if (got.code() == Code::kClosed) {
    if (reader.disconnected()) throw Disconnected(got);
    if (reader.left()) throw Error(got);
  }
  return got;
}

std::string_view codec_name(std::uint8_t codec) {
  switch (codec) {
    case message::kRawCodec: return "a C++ value as bytes";
    case message::kPortableCodec: return "a portable value";
    case message::kNativeCodec:
    case message::kPickleCodec: return "a Python object (only a queue with portable=True can have a C++ end)";
    default: return "something else";
  }
}

[[noreturn]] void throw_wrong_kind(const channel::Incoming& message, std::uint8_t wanted) {
  if (message.codec() != wanted) {
    throw TypeMismatch({Code::kInvalid, "the message holds " + std::string(codec_name(message.codec())) +
                                            " where " + std::string(codec_name(wanted)) + " was expected"});
  }
  throw TypeMismatch({Code::kInvalid, "the message holds a value of another type than this queue's"});
}

Tensor received_tensor(Received& message) {
  Result<Tensor> tensor = message::unpack_tensor(*message);
  if (!tensor) [[unlikely]] {
    if (tensor.code() == Code::kInvalid) throw TypeMismatch(tensor.status());
    throw Error(tensor.status());
  }
  return std::move(*tensor);
}

}  // namespace

void check_mismatch(const channel::Incoming& message, std::uint8_t codec, std::uint64_t type) {
  if (codec != message::kRawCodec || message.codec() != message::kLoanCodec || message.tag() != type)
    throw_wrong_kind(message, codec);
}

Received::Received() noexcept : message_(incoming()) {}

void throw_empty_handle() {
  throw Error({Code::kClosed, "this handle is empty: it was closed, reset or moved from"});
}

arena::Arena& sending_arena(Endpoint endpoint) {
  const bool sends = endpoint.pipe() == nullptr || endpoint.pipe()->out();
  if (!node::is_open(endpoint) || !sends) throw_empty_handle();
  return node::arena_of(endpoint);
}

Status put_message(Endpoint endpoint, const channel::Outgoing& message, Limit limit) {
  if (endpoint.channel() != nullptr && limit.stop == nullptr && limit.ns == kForever) [[likely]]
    return endpoint.channel()->put(message, os::Deadline::never());
  if (!node::is_open(endpoint)) throw_empty_handle();
  const os::Deadline until = deadline_of(limit);
  return wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return node::put(endpoint, message, until, hooks); },
      [endpoint] { node::wake_all(endpoint); });
}

bool receive(Received& message, Endpoint endpoint, std::uint8_t codec, std::uint64_t type, Limit limit) {
  Status got;
  if (endpoint.channel() != nullptr) [[likely]] {
    got = limit.stop == nullptr && limit.ns == kForever
              ? endpoint.channel()->get(*message, os::Deadline::never())
              : receive_from(*endpoint.channel(), *message, limit);
  } else if (endpoint.hold() != nullptr) {
    got = receive_from(*endpoint.hold(), *message, limit);
  } else if (endpoint.reader() != nullptr) {
    got = receive_from(*endpoint.reader(), endpoint.peek(), *message, limit);
  } else {
    if (endpoint.pipe() == nullptr) throw_empty_handle();
    got = receive_from(*endpoint.pipe(), *message, limit);
  }
  if (!settled(got)) return false;
  check_kind(*message, codec, type);
  return true;
}

std::span<const std::byte> payload_of(channel::Incoming& message) {
  if (message.codec() != message::kLoanCodec) [[likely]]
    return message.bytes();
  return value_or_throw(message::lent_bytes(message));
}

bool put_bytes(Endpoint endpoint, std::uint64_t type, std::span<const std::byte> bytes, Limit limit) {
  return put_with_memory(endpoint, bytes.size(), limit, [&](Limit left) {
    return put_message(endpoint, {bytes, {}, message::kRawCodec, type}, left);
  });
}

bool put_value(Endpoint endpoint, const Value& value, Limit limit) {
  message::MessageBuilder builder(sending_arena(endpoint));
  return put_with_memory(endpoint, 0, limit, [&](Limit left) -> Status {
    if (builder.bytes().empty()) {
      builder.goes_to(node::outgoing_channel(endpoint));
      if (Status added = builder.add(value); !added) {
        builder.clear();
        return added;
      }
    }
    return put_message(endpoint, builder.message(), left);
  });
}

bool put_tensor(Endpoint endpoint, const Tensor& tensor, Limit limit) {
  // As `incoming`, a thread's own; the leases go before it is left, so that a thread at rest holds none.
  thread_local message::MessageBuilder builder(sending_arena(endpoint));
  builder.reset(sending_arena(endpoint));
  struct Emptied {
    ~Emptied() { builder.clear(); }
  } const emptied;
  return put_with_memory(endpoint, tensor.nbytes(), limit, [&](Limit left) -> Status {
    if (builder.bytes().empty()) {
      builder.goes_to(node::outgoing_channel(endpoint));
      if (Status added = builder.add(tensor); !added) {
        builder.clear();
        return added;
      }
    }
    return put_message(endpoint, builder.message(), left);
  });
}

bool give_tensor(Endpoint endpoint, Tensor& tensor, Limit limit) {
  const message::LastUse last(tensor, sending_arena(endpoint));
  if (!(last ? settled(put_message(endpoint, last.message(), limit)) : put_tensor(endpoint, tensor, limit)))
    return false;
  TensorAccess::empty(tensor);
  return true;
}

bool get_bytes(Endpoint endpoint, std::uint64_t type, std::span<std::byte> out, Limit limit) {
  Received message;
  message->aim(out);
  if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;
  const std::span<const std::byte> bytes = payload_of(*message);
  if (bytes.size() != out.size()) [[unlikely]]
    throw_wrong_length(bytes.size(), out.size());
  if (bytes.data() != out.data()) sync::copy_large(out.data(), bytes.data(), out.size());
  return true;
}

bool claim_next_bytes(ClaimHold& hold, std::uint64_t type, std::span<std::byte> out, Limit limit) {
  try {
    return get_bytes(Endpoint(hold), type, out, limit);
  } catch (...) {
    hold.drop(unreadable(std::current_exception()));
    throw;
  }
}

bool claim_bytes(ClaimHold& hold, std::uint64_t type, std::span<std::byte> out, Limit limit) {
  try {
    return claim_next_bytes(hold, type, out, limit);
  } catch (...) {
    hold.fail(false);  // dropped already
    throw;
  }
}

void copy_received(void* to, const void* from, std::size_t bytes) noexcept {
  sync::copy_large(to, from, bytes);
}

bool get_sequence(Endpoint endpoint, std::uint64_t type, Sink sink, void* into, Limit limit) {
  Received message;
  if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;
  sink(into, payload_of(*message));
  return true;
}

std::optional<Value> get_value(Endpoint endpoint, Limit limit) {
  Received message;
  if (!receive(message, endpoint, message::kPortableCodec, 0, limit)) return std::nullopt;
  return value_or_throw(message::unpack(*message));
}

std::optional<Tensor> get_tensor(Endpoint endpoint, Limit limit) {
  Received message;
  if (!receive(message, endpoint, message::kPortableCodec, 0, limit)) return std::nullopt;
  return received_tensor(message);
}

Tensor take_tensor(Endpoint endpoint) {
  Received message;
  receive(message, endpoint, message::kPortableCodec, 0, kForever);
  return received_tensor(message);
}

}  // namespace forklift::inline abi_0_1::detail
