// This process's attachment, for the public classes: made when it is first asked for.
#pragma once

#include "forklift/error.h"
#include "node/node.h"

namespace forklift::detail {

// Throws Error: kRefused, kSystem, kNoSpace, ...
inline node::Node& attached_node() { return *value_or_throw(node::Node::current()); }

}  // namespace forklift::detail
