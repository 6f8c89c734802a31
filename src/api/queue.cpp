// The parts of Queue<T> that are no template.
#include "forklift/queue.h"

#include <string>
#include <vector>

#include "api/attached.h"
#include "api/stop.h"
#include "channel/pipe.h"
#include "forklift/broadcast.h"
#include "message/transport.h"
#include "node/endpoint.h"
#include "node/memory_wait.h"
#include "node/node.h"
#include "node/wait_any.h"
#include "process/invitation.h"
#include "tensor/access.h"
#include "topic/topic.h"

namespace forklift::detail {
namespace {

// What a channel's flags say about the queue on it: portable, or, above the low bits, the type of a C++
// queue.
constexpr std::uint64_t kTypeBits = ~std::uint64_t{0xffff};

std::uint64_t flags_for(std::uint64_t type) {
  return type == 0 ? std::uint64_t{channel::kPortable} : type & kTypeBits;
}

// A thread's own: no allocation on the way of a message. Nobody calls back into a queue while it is in use,
// but for destructors of tensors, which run after it was emptied.
channel::Incoming& incoming() {
  thread_local channel::Incoming message;
  return message;
}

// Empties it also where unpacking fails.
class Received {
 public:
  Received() noexcept : message_(incoming()) {}
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

[[noreturn]] void throw_empty() {
  throw Error({Code::kClosed, "this handle is empty: it was closed, reset or moved from"});
}

arena::Arena& arena_of(Endpoint endpoint) {
  const bool sends = endpoint.pipe() == nullptr || endpoint.pipe()->out();
  if (!node::is_open(endpoint) || !sends) throw_empty();
  return node::arena_of(endpoint);
}

Status put(Endpoint endpoint, const channel::Outgoing& message, Limit limit) {
  if (endpoint.channel() != nullptr && limit.stop == nullptr && limit.ns == kForever) [[likely]]
    return endpoint.channel()->put(message, os::Deadline::never());
  if (!node::is_open(endpoint)) throw_empty();
  const os::Deadline until = deadline_of(limit);
  return wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return node::put(endpoint, message, until, hooks); },
      [endpoint] { node::wake_all(endpoint); });
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

[[noreturn]] void throw_mismatch(const channel::Incoming& message, std::uint8_t wanted) {
  if (message.codec() != wanted) {
    throw TypeMismatch({Code::kInvalid, "the message holds " + std::string(codec_name(message.codec())) +
                                            " where " + std::string(codec_name(wanted)) + " was expected"});
  }
  throw TypeMismatch({Code::kInvalid, "the message holds a value of another type than this queue's"});
}

bool receive(Received& message, Endpoint endpoint, std::uint8_t codec, std::uint64_t type, Limit limit) {
  Status got;
  if (endpoint.channel() != nullptr) [[likely]] {
    got = limit.stop == nullptr && limit.ns == kForever
              ? endpoint.channel()->get(*message, os::Deadline::never())
              : receive_from(*endpoint.channel(), *message, limit);
  } else if (endpoint.reader() != nullptr) {
    got = receive_from(*endpoint.reader(), endpoint.peek(), *message, limit);
  } else {
    if (endpoint.pipe() == nullptr) throw_empty();
    got = receive_from(*endpoint.pipe(), *message, limit);
  }
  if (!settled(got)) return false;
  if (message->codec() != codec || (type != 0 && message->tag() != type)) [[unlikely]]
    throw_mismatch(*message, codec);
  return true;
}

Tensor received_tensor(Received& message) {
  Result<Tensor> tensor = message::unpack_tensor(*message);
  if (!tensor) [[unlikely]] {
    if (tensor.code() == Code::kInvalid) throw TypeMismatch(tensor.status());
    throw Error(tensor.status());
  }
  return std::move(*tensor);
}

// `attempt(limit)`, again while there is no memory, as long as the caller would wait for room.
template <class Attempt>
bool put_with_memory(Endpoint endpoint, std::size_t bytes, Limit limit, Attempt&& attempt) {
  Status status = attempt(limit);
  if (status.code() != Code::kOverBudget || limit.ns == 0) [[likely]]
    return settled(status);
  const os::Deadline until = deadline_of(limit);
  StopHooks hooks(stop_of(limit));
  node::MemoryWait memory(arena_of(endpoint), bytes, until);
  while (memory.again(status, &hooks)) {
    Limit left = limit;
    if (left.ns != kForever) left.ns = until.left_ns(left.ns);
    status = attempt(left);
  }
  return settled(status);
}

template <class Channel>
Channel& opened(Channel* channel) {
  if (channel == nullptr) throw_empty();
  return *channel;
}

}  // namespace

ChannelPtr make_queue(std::uint64_t type, const QueueOptions& options) {
  return value_or_throw(channel::Channel::create(
      attached_node().channels(),
      {.capacity = options.capacity, .byte_capacity = options.bytes, .flags = flags_for(type)}));
}

void check_queue_type(const channel::Channel& channel, std::string_view name, std::uint64_t type) {
  if (channel.flags() == flags_for(type)) return;
  const bool portable = (channel.flags() & channel::kPortable) != 0;
  throw TypeMismatch({Code::kInvalid, "the queue \"" + std::string(name) + "\" holds " +
                                          (portable ? "portable values: use Queue<Value> or Queue<Tensor>"
                                                    : "values of another type")});
}

ChannelPtr queue_of_type(const ChannelRef& ref, std::uint64_t type) {
  if (ref.get() != nullptr && ref.get()->flags() != flags_for(type)) {
    throw TypeMismatch({Code::kInvalid, "the queue behind this reference holds values of another type"});
  }
  return ref.get();
}

ChannelPtr inherited_queue(std::string_view name, std::uint64_t type) {
  ChannelPtr channel = value_or_throw(process::inherited_channel(name));
  check_queue_type(*channel, name, type);
  return channel;
}

bool put_bytes(Endpoint endpoint, std::uint64_t type, std::span<const std::byte> bytes, Limit limit) {
  return put_with_memory(endpoint, bytes.size(), limit, [&](Limit left) {
    return put(endpoint, {bytes, {}, message::kRawCodec, type}, left);
  });
}

bool put_value(Endpoint endpoint, const Value& value, Limit limit) {
  message::MessageBuilder builder(arena_of(endpoint));
  return put_with_memory(endpoint, 0, limit, [&](Limit left) -> Status {
    if (builder.bytes().empty()) {
      if (Status added = builder.add(value); !added) {
        builder.clear();
        return added;
      }
    }
    return put(endpoint, builder.message(), left);
  });
}

bool put_tensor(Endpoint endpoint, const Tensor& tensor, Limit limit) {
  // As `incoming`, a thread's own; the leases go before it is left, so that a thread at rest holds none.
  thread_local message::MessageBuilder builder(arena_of(endpoint));
  builder.reset(arena_of(endpoint));
  struct Emptied {
    ~Emptied() { builder.clear(); }
  } const emptied;
  return put_with_memory(endpoint, tensor.nbytes(), limit, [&](Limit left) -> Status {
    if (builder.bytes().empty()) {
      if (Status added = builder.add(tensor); !added) {
        builder.clear();
        return added;
      }
    }
    return put(endpoint, builder.message(), left);
  });
}

bool give_tensor(Endpoint endpoint, Tensor& tensor, Limit limit) {
  const message::LastUse last(tensor, arena_of(endpoint));
  if (!(last ? settled(put(endpoint, last.message(), limit)) : put_tensor(endpoint, tensor, limit)))
    return false;
  TensorAccess::empty(tensor);
  return true;
}

bool get_bytes(Endpoint endpoint, std::uint64_t type, std::span<std::byte> out, Limit limit) {
  Received message;
  message->aim(out);
  if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;
  if (message->bytes().size() != out.size()) [[unlikely]]
    throw_wrong_length(message->bytes().size(), out.size());
  if (message->bytes().data() != out.data()) std::memcpy(out.data(), message->bytes().data(), out.size());
  return true;
}

bool get_sequence(Endpoint endpoint, std::uint64_t type, Sink sink, void* into, Limit limit) {
  Received message;
  if (!receive(message, endpoint, message::kRawCodec, type, limit)) return false;
  sink(into, message->bytes());
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

std::size_t queue_size(const channel::Channel* channel) { return opened(channel).size(); }

std::size_t queue_capacity(const channel::Channel* channel) { return opened(channel).capacity(); }

bool queue_full(const channel::Channel* channel) {
  return opened(channel).capacity() != 0 && channel->full();
}

void close_queue(channel::Channel* channel) { throw_if_failed(opened(channel).close()); }

bool queue_closed(const channel::Channel* channel) { return opened(channel).closed(); }

void task_done(channel::Channel* channel) {
  if (!opened(channel).task_done())
    throw Error({Code::kInvalid, "task_done() was called more often than messages were put"});
}

std::size_t unfinished_tasks(const channel::Channel* channel) { return opened(channel).unfinished(); }

bool join_tasks(channel::Channel* channel, Limit limit) {
  opened(channel);
  const os::Deadline until = deadline_of(limit);
  return settled(wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return channel->join(until, hooks); },
      [channel] { channel->wake_all(); }));
}

void throw_wrong_length(std::size_t bytes, std::size_t item) {
  throw TypeMismatch({Code::kInvalid, "a message of " + std::to_string(bytes) + " bytes where " +
                                          std::to_string(item) + " make one value"});
}

}  // namespace forklift::detail
