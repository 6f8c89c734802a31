// This process's attachments, for the public classes: the home is made when it is first asked for.
#pragma once

#include <cstdint>

#include "forklift/error.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::detail {

// Throws Error: kRefused, kSystem, kNoSpace, ...
inline node::Node& attached_node() { return *value_or_throw(node::Node::current()); }

// For what is of the process, not of one of its domains: the domain that its children are invited to.
inline node::Node& home_node() { return *value_or_throw(node::Node::home()); }

// The node of an object. Throws Error (kNotAttached).
inline node::Node& node_of(const arena::Arena& arena) {
  node::Node* const node = node::Node::of(arena);
  if (node == nullptr) throw Error({Code::kNotAttached, "this process is not in the object's domain"});
  return *node;
}

// The node of the domain with this number, as what travels names it. Throws Error (kNotAttached).
inline node::Node& node_numbered(std::uint64_t domain_id) {
  node::Node* const node = node::Node::of_domain(domain_id);
  if (node == nullptr)
    throw Error({Code::kNotAttached,
                 "this process is not in the domain that the object lives in: attach to that domain by its "
                 "name first"});
  return *node;
}

// The watches of the domain with this arena. Throws Error (kNotAttached).
inline watch::Watches& watches_of(const arena::Arena& arena) { return node_of(arena).watches(); }

}  // namespace forklift::inline abi_0_1::detail
