// What forklift::init() leaves behind for Process::spawn, and what the two tell each other.
#pragma once

#include <string>

namespace forklift::process {

// Channels of a spawned child.
inline constexpr const char* kReportsName = "forklift.reports";
inline constexpr const char* kArgumentsName = "forklift.arguments";

bool initialised() noexcept;
// argv[0] of this program.
const std::string& program_name() noexcept;

}  // namespace forklift::process
