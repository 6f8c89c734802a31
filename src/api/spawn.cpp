// Arguments of a spawned function: one portable message on a channel of their own.
#include "forklift/spawn.h"

#include <array>
#include <cstring>
#include <string>

#include "api/attached.h"
#include "forklift/context.h"
#include "message/transport.h"
#include "process/registry.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::detail {

void register_function(const char* name, Address function, Runner runner) {
  process::register_function(name != nullptr ? name : "", function, runner);
}

std::string registered_name(Address function) { return value_or_throw(process::name_of(function)); }

ChannelRef send_arguments(Value::List arguments) {
  node::Node& node = attached_node();
  channel::ChannelPtr channel =
      value_or_throw(channel::Channel::create(node.channels(), {.flags = channel::kPortable}));
  message::MessageBuilder builder(node.arena());
  throw_if_failed(builder.add(Value(std::move(arguments))));
  throw_if_failed(channel->put(builder.message(), os::Deadline::never()));
  return ChannelRef(std::move(channel));
}

Value::List receive_arguments(const ChannelPtr& channel, std::size_t count) {
  channel::Incoming message;
  throw_if_failed(channel->get(message, os::Deadline::after_ns(0)));
  Value value = value_or_throw(message::unpack(message));
  auto* list = value.get_if<Value::List>();
  if (list == nullptr || list->size() != count) {
    throw TypeMismatch({Code::kInvalid, "a function of " + std::to_string(count) +
                                            " parameters was called with something else"});
  }
  return std::move(*list);
}

void throw_not_registered(StartMethod method) {
  throw Error(
      {Code::kInvalid,
       "a " + std::string(name_of(method)) +
           " context runs registered functions only: a fresh process has no lambda or other callable of "
           "this one. Make it a function, with the line `static const forklift::Registered<&function> "
           "registered{\"its name\"};`, or use fork_context()"});
}

Value describe_queue(const ChannelRef& queue) {
  if (!queue.get()) throw Error({Code::kClosed, "an empty handle as an argument of a spawned function"});
  const channel::ChannelId id = queue.get()->id();
  return Value::List{id.index, id.generation};
}

ChannelRef find_queue(const Value& described) {
  const auto id = described.as<std::array<std::uint32_t, 2>>();
  return ChannelRef(value_or_throw(channel::Channel::open(attached_node().channels(), {id[0], id[1]})));
}

Value describe_lock(const LockRef& lock) {
  const LockName name = name_of(lock);
  return Value::List{name.index, name.generation};
}

LockName lock_named(const Value& described) {
  const auto id = described.as<std::array<std::uint32_t, 2>>();
  return {id[0], id[1]};
}

Value describe_topic(const TopicRef& topic) {
  if (!topic.get()) throw Error({Code::kClosed, "an empty handle as an argument of a spawned function"});
  const topic::TopicId id = topic.get()->id();
  return Value::List{id.index, id.generation};
}

TopicRef find_topic(const Value& described) {
  const auto id = described.as<std::array<std::uint32_t, 2>>();
  return TopicRef(value_or_throw(topic::Topic::open(attached_node().topics(), {id[0], id[1]})));
}

// Many bytes lie in shared memory, where the receiver reads them: copied once, not into MessagePack, from
// there into the message, and back again. Less than this is faster without a block of its own.
constexpr std::size_t kManyBytes = 32 * 1024;

Value bytes_value(const void* data, std::size_t size) {
  if (size < kManyBytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    return Value::Bytes(bytes, bytes + size);
  }
  Tensor memory = Tensor::empty({static_cast<std::int64_t>(size)}, DType::kUInt8);
  std::memcpy(memory.raw(), data, size);
  return memory;
}

std::span<const std::byte> bytes_of(const Value& value) {
  std::size_t size = 0;
  if (const std::byte* bytes = bytes_in(value, size)) return {bytes, size};
  const auto* memory = value.get_if<Tensor>();
  if (memory == nullptr || memory->dtype() != DType::kUInt8 || !memory->is_contiguous())
    throw TypeMismatch(wrong_kind(value, "bytes"));
  return {static_cast<const std::byte*>(memory->raw()), static_cast<std::size_t>(memory->nbytes())};
}

void bytes_from(const Value& value, void* data, std::size_t size) {
  const std::span<const std::byte> bytes = bytes_of(value);
  if (bytes.size() != size) throw_wrong_length(bytes.size(), size);
  std::memcpy(data, bytes.data(), size);
}

}  // namespace forklift::inline abi_0_1::detail

namespace forklift::inline abi_0_1 {

namespace {
constexpr std::array<std::string_view, 3> kMethods = {"fork", "spawn", "forkserver"};
}  // namespace

std::string_view name_of(StartMethod method) noexcept { return kMethods[static_cast<std::size_t>(method)]; }

Context get_context(std::string_view method) {
  for (std::size_t i = 0; i < kMethods.size(); ++i)
    if (kMethods[i] == method) return Context(static_cast<StartMethod>(i));
  throw Error({Code::kInvalid, "\"" + std::string(method) +
                                   "\" is no start method: it is \"fork\", \"spawn\" or \"forkserver\""});
}

}  // namespace forklift::inline abi_0_1
