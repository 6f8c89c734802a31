// What forklift::init() leaves behind for whoever starts a process of this program.
#pragma once

#include <string>

namespace forklift::process {

// Channels of a spawned child.
inline constexpr const char* kReportsName = "forklift.reports";
inline constexpr const char* kArgumentsName = "forklift.arguments";

// init() has run. mark_initialised() answers whether it had before; the name is argv[0].
bool initialised() noexcept;
bool mark_initialised(std::string program_name);
void unmark_initialised() noexcept;

// argv[0] of this program.
const std::string& program_name() noexcept;

}  // namespace forklift::process
