// How services are found by their names, and what is compared then.
#include "api/attached.h"
#include "base/release.h"
#include "forklift/service.h"
#include "node/published.h"
#include "service/client.h"
#include "service/server.h"

namespace forklift::inline abi_0_1::detail {

namespace {

// As a queue's flags: the low bits say what else a channel is.
std::uint64_t channel_flags(const ServiceType& type) { return type.hash & ~std::uint64_t{0xffff}; }

std::optional<node::Published> look_up_service(std::string_view name) {
  Result<node::Published> found = attached_node().names().find(name);
  if (found.code() == Code::kNotFound) return std::nullopt;
  node::Published published = value_or_throw(std::move(found));
  if (published.kind != static_cast<std::uint64_t>(node::ObjectType::kService))
    throw_published_otherwise(name);
  return published;
}

// Null: it has gone since it was looked up.
ChannelPtr open_requests(const node::Published& published) {
  Result<channel::ChannelPtr> opened =
      channel::Channel::open(attached_node().channels(), {published.object.index, published.generation});
  if (opened.code() == Code::kInvalid) return nullptr;
  return value_or_throw(std::move(opened));
}

[[noreturn]] void throw_other_types(std::string_view name, const channel::Channel& requests,
                                    const ServiceType& type) {
  throw TypeMismatch({Code::kInvalid, "the service \"" + std::string(name) + "\" is " +
                                          attached_node().calls().types(requests.id()) +
                                          "; this program takes it for " + type.text});
}

bool same_channel(const node::Published& published, const channel::Channel& channel) {
  return published.object.index == channel.id().index && published.generation == channel.id().generation;
}

// The name of a service that no process serves is free for others. False: a process serves it.
bool take_name(std::string_view name, const channel::Channel& requests) {
  node::Node& node = attached_node();
  if (node.calls().served(requests.id())) return false;
  const Status gone = node.names().unpublish(name);
  if (gone.code() == Code::kNotFound) return true;
  throw_if_failed(gone);
  if (!node.calls().served(requests.id())) return true;
  // A server has come in between: it gets the name back, if no third process has it by now.
  const Status back = node::publish(node.names(), requests, node::ObjectType::kService, name);
  if (back.code() != Code::kExists) throw_if_failed(back);
  return false;
}

}  // namespace

std::string plain_name(std::string_view name) { return without_release(name); }

ServiceServerPtr serve_requests(std::string_view name, const ServiceType& type, std::uint32_t capacity) {
  node::Node& node = attached_node();
  for (;;) {
    const std::optional<node::Published> found = look_up_service(name);
    ChannelPtr requests;
    if (found) {
      requests = open_requests(*found);
      if (!requests) continue;
      const bool same_types = requests->flags() == channel_flags(type);
      if (!same_types || requests->capacity() != capacity) {
        if (!take_name(name, *requests)) {
          if (!same_types) throw_other_types(name, *requests, type);
          check_published(name, ChannelRef(requests), {.capacity = capacity});
        }
        continue;
      }
    } else {
      requests = value_or_throw(
          channel::Channel::create(node.channels(), {.capacity = capacity, .flags = channel_flags(type)}));
    }
    auto server = std::make_shared<service::Server>(node.calls(), requests, type.text);
    throw_if_failed(server->enter());
    if (!found) {
      const Status published = node::publish(node.names(), *requests, node::ObjectType::kService, name);
      if (published) return server;
      if (published.code() != Code::kExists) throw_if_failed(published);
    } else if (const std::optional<node::Published> now = look_up_service(name);
               now && same_channel(*now, *requests)) {
      // From here on no other process takes the name for one that nobody serves.
      return server;
    }
  }
}

ServiceClientPtr connect_requests(std::string_view name, const ServiceType& type, const Wait& wait) {
  const Wait begun = wait.begun();
  for (;;) {
    if (const std::optional<node::Published> found = look_up_service(name)) {
      const ChannelPtr requests = open_requests(*found);
      service::Calls& calls = attached_node().calls();
      if (requests && calls.served(requests->id())) {
        if (requests->flags() != channel_flags(type)) throw_other_types(name, *requests, type);
        return std::make_shared<service::Client>(calls, requests);
      }
    }
    if (!pause_to_look_again(begun)) return nullptr;
  }
}

void throw_not_served(std::string_view name) {
  throw Error({Code::kNotFound, "no process serves \"" + std::string(name) + "\" in this domain"});
}

}  // namespace forklift::inline abi_0_1::detail
