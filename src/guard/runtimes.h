// The runtimes whose behaviour at a fork is known, and what this process has of them.
#pragma once

#include <string>
#include <vector>

#include "guard/finding.h"
#include "guard/libraries.h"
#include "guard/threads.h"

namespace forklift::inline abi_0_1::guard {

// One finding for each known runtime that is mapped, for Python's threads, for each library that has started
// threads of which nothing is known, and for stdio's locks. It runs no code of the runtimes, except functions
// that return a version.
std::vector<Finding> examine_runtimes();

// The same of these libraries and threads, for tests: what the machine that runs them lacks can be described.
std::vector<Finding> judge(const Libraries& libraries, const std::vector<Thread>& threads);

}  // namespace forklift::inline abi_0_1::guard
