#include "node/endpoint.h"

namespace forklift::inline abi_0_1::node {

namespace {

channel::Channel& any_channel_of(const channel::PipeEnd& pipe) noexcept {
  return pipe.out() ? *pipe.out() : *pipe.in();
}

}  // namespace

bool is_open(Endpoint endpoint) noexcept {
  return endpoint.channel() != nullptr || endpoint.pipe() != nullptr || endpoint.topic() != nullptr ||
         endpoint.reader() != nullptr;
}

arena::Arena& arena_of(Endpoint endpoint) noexcept {
  if (endpoint.channel() != nullptr) [[likely]]
    return endpoint.channel()->arena();
  if (endpoint.pipe() != nullptr) return any_channel_of(*endpoint.pipe()).arena();
  return endpoint.topic() != nullptr ? endpoint.topic()->arena() : endpoint.reader()->topic()->arena();
}

const channel::Channel* outgoing_channel(Endpoint endpoint) noexcept {
  return endpoint.pipe() != nullptr ? endpoint.pipe()->out().get() : endpoint.channel();
}

Status put(Endpoint endpoint, const channel::Outgoing& message, os::Deadline deadline,
           domain::WaitHooks* hooks) {
  if (endpoint.channel() != nullptr) [[likely]]
    return endpoint.channel()->put(message, deadline, hooks);
  if (endpoint.pipe() != nullptr) return endpoint.pipe()->send(message, deadline, hooks);
  return endpoint.topic()->put(message, deadline, hooks);
}

Status get(Endpoint endpoint, channel::Incoming& into, os::Deadline deadline, domain::WaitHooks* hooks,
           std::uint64_t* version) {
  if (endpoint.channel() != nullptr) [[likely]]
    return endpoint.channel()->get(into, deadline, hooks);
  if (endpoint.pipe() != nullptr) return endpoint.pipe()->receive(into, deadline, hooks);
  if (endpoint.peek()) return endpoint.reader()->peek(into, version);
  return endpoint.reader()->get(into, deadline, hooks);
}

void wake_all(Endpoint endpoint) noexcept {
  if (endpoint.channel() != nullptr) {
    endpoint.channel()->wake_all();
  } else if (endpoint.pipe() != nullptr) {
    if (endpoint.pipe()->out()) endpoint.pipe()->out()->wake_all();
  } else {
    (endpoint.topic() != nullptr ? *endpoint.topic() : *endpoint.reader()->topic()).wake_all();
  }
}

}  // namespace forklift::inline abi_0_1::node
