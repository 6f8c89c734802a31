// This process's attachment, for the public classes: made when it is first asked for.
#pragma once

#include "forklift/error.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::detail {

// Throws Error: kRefused, kSystem, kNoSpace, ...
inline node::Node& attached_node() { return *value_or_throw(node::Node::current()); }

// The watches of the domain with this arena. Throws Error (kNotAttached).
inline watch::Watches& watches_of(const arena::Arena& arena) {
  node::Node* const node = node::Node::of(arena);
  if (node == nullptr) throw Error({Code::kNotAttached, "this process is not in the object's domain"});
  return node->watches();
}

}  // namespace forklift::inline abi_0_1::detail
