// The answer of the program to the process that has started it (segment/start_manager.h).
#pragma once

#include <string>

namespace forklift::inline abi_0_1::shm_manager {

// Writes the words and closes the descriptor; -1: nobody waits for them.
void say(int file, const std::string& words);

}  // namespace forklift::inline abi_0_1::shm_manager
