// What all endpoints of messages do: queues, pipes, topics and their readers.
//
//   Status sent = node::put(endpoint, message, deadline, &hooks);
//   Status got = node::get(endpoint, into, deadline, &hooks);
//
// Precondition of all: the endpoint is not closed (is_open).
//
// Thread and process safety: those of what it refers to.
#pragma once

#include "channel/channel.h"
#include "channel/pipe.h"
#include "forklift/detail/endpoint.h"
#include "topic/topic.h"

namespace forklift::inline abi_0_1::node {

using detail::Endpoint;

bool is_open(Endpoint endpoint) noexcept;

// Where its messages' memory comes from.
arena::Arena& arena_of(Endpoint endpoint) noexcept;

// The channel that its messages go through; nullptr: a topic, or none that it sends through.
const channel::Channel* outgoing_channel(Endpoint endpoint) noexcept;

// Errors as of Channel::put, PipeEnd::send and Topic::put.
Status put(Endpoint endpoint, const channel::Outgoing& message, os::Deadline deadline,
           domain::WaitHooks* hooks = nullptr);
// Errors as of Channel::get, PipeEnd::receive, Reader::get and Reader::peek, which fills in `version`.
Status get(Endpoint endpoint, channel::Incoming& into, os::Deadline deadline,
           domain::WaitHooks* hooks = nullptr, std::uint64_t* version = nullptr);

// Makes everybody who waits in put() or get() look at its hooks, but not a pipe's receiver, which sleeps in
// poll(2).
void wake_all(Endpoint endpoint) noexcept;

}  // namespace forklift::inline abi_0_1::node
