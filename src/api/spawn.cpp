// Arguments of a spawned function: one portable message on a channel of their own.
#include "forklift/spawn.h"

#include <array>
#include <string>

#include "api/attached.h"
#include "forklift/context.h"
#include "locks/table.h"
#include "message/transport.h"
#include "process/registry.h"
#include "sync/past_caches.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::detail {

namespace {

// An object among the arguments: a forked child has it in the domain that its parent has it in.
Value describe(std::uint32_t index, std::uint32_t generation, const domain::Domain& domain) {
  return Value::List{index, generation, domain.header().domain_id};
}

struct Described {
  explicit Described(const Value& value) : Described(value.as<std::array<std::uint64_t, 3>>()) {}
  explicit Described(const std::array<std::uint64_t, 3>& parts)
      : index(static_cast<std::uint32_t>(parts[0])),
        generation(static_cast<std::uint32_t>(parts[1])),
        node(node_numbered(parts[2])) {}
  std::uint32_t index;
  std::uint32_t generation;
  node::Node& node;
};

}  // namespace

void register_function(const char* name, Address function, Runner runner) {
  process::register_function(name != nullptr ? name : "", function, runner);
}

std::string registered_name(Address function) { return value_or_throw(process::name_of(function)); }

ChannelRef send_arguments(Value::List arguments) {
  node::Node& node = home_node();
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
  return describe(id.index, id.generation, queue.get()->domain());
}

ChannelRef find_queue(const Value& described) {
  const Described object(described);
  return ChannelRef(
      value_or_throw(channel::Channel::open(object.node.channels(), {object.index, object.generation})));
}

Value describe_lock(const LockRef& lock) {
  const LockName name = name_of(lock);
  return describe(name.index, name.generation, lock.get()->table().domain());
}

LockName lock_named(const Value& described) {
  const Described object(described);
  return {object.index, object.generation, object.node.domain().header().domain_id};
}

Value describe_topic(const TopicRef& topic) {
  if (!topic.get()) throw Error({Code::kClosed, "an empty handle as an argument of a spawned function"});
  const topic::TopicId id = topic.get()->id();
  return describe(id.index, id.generation, topic.get()->domain());
}

TopicRef find_topic(const Value& described) {
  const Described object(described);
  return TopicRef(
      value_or_throw(topic::Topic::open(object.node.topics(), {object.index, object.generation})));
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
  sync::copy_bytes(memory.raw(), data, size);
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
  sync::copy_bytes(data, bytes.data(), size);
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
