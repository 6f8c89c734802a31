// The parts of Queue<T> that are no template.
#include "forklift/claim.h"

#include <string>

#include "api/attached.h"
#include "api/stop.h"
#include "api/transfer.h"
#include "node/node.h"
#include "node/wait_any.h"
#include "process/invitation.h"

namespace forklift::inline abi_0_1::detail {
namespace {

// What a channel's flags say about the queue on it: portable, or, above the low bits, the type of a C++
// queue.
constexpr std::uint64_t kTypeBits = ~std::uint64_t{0xffff};

static_assert(kRedeliveringQueue == channel::kRedelivers);

std::uint64_t flags_for(std::uint64_t type) {
  const std::uint64_t held = type & kTypeBits;
  return (held == 0 ? std::uint64_t{channel::kPortable} : held) | (type & kRedeliveringQueue);
}

// Why a queue with some flags is not the one that is wanted.
std::string difference(std::uint64_t has, std::uint64_t wanted) {
  if (((has ^ wanted) & ~std::uint64_t{channel::kRedelivers}) == 0) {
    return (has & channel::kRedelivers) != 0
               ? "delivers at least once: it is a Queue<T, Delivery::kAtLeastOnce>, whose messages are "
                 "acknowledged"
               : "delivers at most once: it is a Queue<T>, without acknowledgements";
  }
  return (has & channel::kPortable) != 0 ? "holds portable values: use Queue<Value> or Queue<Tensor>"
                                         : "holds values of another type";
}

template <class Channel>
Channel& opened(Channel* channel) {
  if (channel == nullptr) throw_empty_handle();
  return *channel;
}

ChannelPtr with_label(const QueueOptions& options, Result<channel::ChannelPtr> made) {
  ChannelPtr channel = value_or_throw(std::move(made));
  if (!options.label.empty()) throw_if_failed(channel->label().set(options.label));
  return channel;
}

}  // namespace

ChannelPtr make_queue(std::uint64_t type, const QueueOptions& options) {
  return with_label(
      options, channel::Channel::create(
                   attached_node().channels(),
                   {.capacity = options.capacity, .byte_capacity = options.bytes, .flags = flags_for(type)}));
}

ChannelPtr make_redelivering_queue(std::uint64_t type, const QueueOptions& options, std::uint32_t tries,
                                   std::uint32_t claims, const ChannelRef& dead_letters) {
  if (claims == 0)
    throw Error(
        {Code::kInvalid, "no message could be got from a queue with room for 0 claims: make it 1 or more"});
  return with_label(
      options, channel::Channel::create(attached_node().channels(), {.capacity = options.capacity,
                                                                     .byte_capacity = options.bytes,
                                                                     .flags = flags_for(type),
                                                                     .receipts = claims,
                                                                     .tries = tries,
                                                                     .dead_letters = dead_letters.get()}));
}

void check_queue_type(const channel::Channel& channel, std::string_view name, std::uint64_t type) {
  if (channel.flags() == flags_for(type)) return;
  throw TypeMismatch({Code::kInvalid, "the queue \"" + std::string(name) + "\" " +
                                          difference(channel.flags(), flags_for(type))});
}

ChannelPtr queue_of_type(const ChannelRef& ref, std::uint64_t type) {
  if (ref.get() != nullptr && ref.get()->flags() != flags_for(type)) {
    throw TypeMismatch({Code::kInvalid, sync::labelled("the queue", ref.get()->label()) +
                                            " behind this reference " +
                                            difference(ref.get()->flags(), flags_for(type))});
  }
  return ref.get();
}

ChannelPtr inherited_queue(std::string_view name, std::uint64_t type) {
  ChannelPtr channel = value_or_throw(process::inherited_channel(name));
  check_queue_type(*channel, name, type);
  return channel;
}

std::size_t queue_size(const channel::Channel* channel) { return opened(channel).size(); }

std::size_t queue_capacity(const channel::Channel* channel) { return opened(channel).capacity(); }

bool queue_full(const channel::Channel* channel) {
  return opened(channel).capacity() != 0 && channel->full();
}

int queue_descriptor(channel::Channel* channel) {
  channel::Channel& queue = opened(channel);
  return value_or_throw(queue.message_descriptor(watches_of(queue.arena())));
}

int queue_room_descriptor(channel::Channel* channel) {
  channel::Channel& queue = opened(channel);
  return value_or_throw(queue.room_descriptor(watches_of(queue.arena())));
}

void close_queue(channel::Channel* channel) { throw_if_failed(opened(channel).close()); }

bool queue_closed(const channel::Channel* channel) { return opened(channel).closed(); }

void task_done(channel::Channel* channel) {
  if (!opened(channel).task_done())
    throw Error({Code::kInvalid, "task_done() of " + sync::labelled("a queue", channel->label()) +
                                     " was called more often than messages were put"});
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

}  // namespace forklift::inline abi_0_1::detail
