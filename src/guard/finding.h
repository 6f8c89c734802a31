// What an examination of this process before a fork finds, by its names in this room.
#pragma once

#include "forklift/fork_guard.h"

namespace forklift::inline abi_0_1::guard {

using Verdict = ForkVerdict;
using Finding = ForkFinding;

}  // namespace forklift::inline abi_0_1::guard
