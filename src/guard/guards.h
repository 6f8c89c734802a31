// The guards: functions that look for one kind of trouble each before a fork.
//
//   register_guard("camera", [] { return std::vector<Finding>{...}; });
//   for (const Finding& finding : examine()) ...
//
// examine() asks the guards of this room (runtimes.h) and then the registered ones, in the order in which they
// came. A guard that throws becomes a finding that says so. Guards run in the thread that forks, before the
// fork; they must not wait.
// Thread safety: yes.
#pragma once

#include <string>
#include <vector>

#include "guard/finding.h"

namespace forklift::inline abi_0_1::guard {

using Guard = ForkGuard;

// Registers a guard, or replaces the one of this name; an empty function removes it.
void register_guard(const std::string& name, Guard guard);

std::vector<Finding> examine();

// False if a fork meets nothing: this process has one thread, and nobody registered a guard. It takes
// microseconds, so that a program without threads pays nothing else.
bool needs_examination();

}  // namespace forklift::inline abi_0_1::guard
