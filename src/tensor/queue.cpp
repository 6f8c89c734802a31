// The parts of Queue<T> that are no template.
#include "forklift/queue.h"

#include <string>

#include "process/invitation.h"
#include "tensor/transport.h"

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
    if (!message_.leases().empty() || !message_.bytes_are_private()) message_.clear();
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  channel::Incoming* operator->() noexcept { return &message_; }
  channel::Incoming& operator*() noexcept { return message_; }

 private:
  channel::Incoming& message_;
};

[[noreturn]] void throw_closed() { throw Error({Code::kClosed, "this queue is closed, or was moved from"}); }

channel::Channel& open(channel::Channel* channel) {
  if (channel == nullptr) [[unlikely]]
    throw_closed();
  return *channel;
}

// Without asking the clock where it does not matter.
os::Deadline deadline(std::int64_t ns) noexcept {
  return ns == kForever ? os::Deadline::never() : os::Deadline::after_ns(ns);
}

// True: done. False: the time is over. Anything else is thrown.
bool settled(const Status& status) {
  if (status.ok()) [[likely]]
    return true;
  if (status.code() == Code::kTimeout) return false;
  throw Error(status);
}

std::string_view codec_name(std::uint8_t codec) {
  switch (codec) {
    case tensor::kRawCodec: return "a C++ value as bytes";
    case tensor::kPortableCodec: return "a portable value";
    case tensor::kNativeCodec:
    case tensor::kPickleCodec: return "a Python object (only a queue with portable=True can have a C++ end)";
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

bool receive(Received& message, channel::Channel* channel, std::uint8_t codec, std::uint64_t type,
             std::int64_t ns) {
  if (!settled(open(channel).get(*message, deadline(ns)))) return false;
  if (message->codec() != codec || (type != 0 && message->tag() != type)) [[unlikely]]
    throw_mismatch(*message, codec);
  return true;
}

bool send(channel::Channel* channel, const tensor::Parcel& parcel, std::int64_t ns) {
  return settled(channel->put(parcel.message(), deadline(ns)));
}

}  // namespace

ChannelPtr make_queue(std::uint64_t type, const QueueOptions& options) {
  channel::Hub* hub = need(channel::Hub::current());
  return need(channel::Channel::create(*hub, {.capacity = options.capacity, .flags = flags_for(type)}));
}

ChannelPtr inherited_queue(std::string_view name, std::uint64_t type) {
  ChannelPtr channel = need(process::inherited_channel(name));
  if (channel->flags() != flags_for(type)) {
    const bool portable = (channel->flags() & channel::kPortable) != 0;
    throw TypeMismatch({Code::kInvalid, "the queue \"" + std::string(name) + "\" holds " +
                                            (portable ? "portable values: use Queue<Value> or Queue<Tensor>"
                                                      : "values of another type")});
  }
  return channel;
}

bool put_bytes(channel::Channel* channel, std::uint64_t type, std::span<const std::byte> bytes,
               std::int64_t ns) {
  return settled(open(channel).put({bytes, {}, tensor::kRawCodec, type}, deadline(ns)));
}

bool put_value(channel::Channel* channel, const Value& value, std::int64_t ns) {
  tensor::Parcel parcel(open(channel).hub().arena());
  check(parcel.add(value));
  return send(channel, parcel, ns);
}

bool put_tensor(channel::Channel* channel, const Tensor& tensor, bool last_use, std::int64_t ns) {
  // As `incoming`, a thread's own; the leases go before it is left, so that a thread at rest holds none.
  thread_local tensor::Parcel parcel(open(channel).hub().arena());
  parcel.reset(open(channel).hub().arena());
  struct Emptied {
    ~Emptied() { parcel.clear(); }
  } const emptied;
  check(last_use ? parcel.add_last(tensor) : parcel.add(tensor));
  return send(channel, parcel, ns);
}

bool get_bytes(channel::Channel* channel, std::uint64_t type, std::span<std::byte> out, std::int64_t ns) {
  Received message;
  if (!receive(message, channel, tensor::kRawCodec, type, ns)) return false;
  if (message->bytes().size() != out.size()) [[unlikely]]
    throw_wrong_length(message->bytes().size(), out.size());
  std::memcpy(out.data(), message->bytes().data(), out.size());
  return true;
}

bool get_sequence(channel::Channel* channel, std::uint64_t type, Sink sink, void* into, std::int64_t ns) {
  Received message;
  if (!receive(message, channel, tensor::kRawCodec, type, ns)) return false;
  sink(into, message->bytes());
  return true;
}

std::optional<Value> get_value(channel::Channel* channel, std::int64_t ns) {
  Received message;
  if (!receive(message, channel, tensor::kPortableCodec, 0, ns)) return std::nullopt;
  return need(tensor::unpack(*message));
}

std::optional<Tensor> get_tensor(channel::Channel* channel, std::int64_t ns) {
  Received message;
  if (!receive(message, channel, tensor::kPortableCodec, 0, ns)) return std::nullopt;
  Result<Tensor> tensor = tensor::unpack_tensor(*message);
  if (!tensor && tensor.code() == Code::kInvalid) throw TypeMismatch(tensor.status());
  return need(std::move(tensor));
}

std::size_t queue_size(const channel::Channel* channel) {
  if (channel == nullptr) throw_closed();
  return channel->size();
}

std::size_t queue_capacity(const channel::Channel* channel) {
  if (channel == nullptr) throw_closed();
  return channel->capacity();
}

bool queue_full(const channel::Channel* channel) {
  if (channel == nullptr) throw_closed();
  return channel->capacity() != 0 && channel->full();
}

void throw_wrong_length(std::size_t bytes, std::size_t item) {
  throw TypeMismatch({Code::kInvalid, "a message of " + std::to_string(bytes) + " bytes where " +
                                          std::to_string(item) + " make one value"});
}

}  // namespace forklift::detail
