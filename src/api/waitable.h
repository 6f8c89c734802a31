// What can be waited for, as node knows it: for wait_any.cpp and wait_set.cpp.
#pragma once

#include "forklift/wait_any.h"
#include "node/source.h"

namespace forklift::inline abi_0_1::detail {

// Refers to the same object. Throws Error: kClosed (an empty handle), kSystem (a descriptor that is not open).
node::Source source_of(const Waitable& object);

}  // namespace forklift::inline abi_0_1::detail
