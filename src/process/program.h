// What forklift::init() records for the code that starts processes of this program.
#pragma once

#include <string>

namespace forklift::inline abi_0_1::process {

// The names of the channels that a spawned child inherits.
inline constexpr const char* kReportsName = "forklift.reports";
inline constexpr const char* kArgumentsName = "forklift.arguments";

// Whether init() has run. mark_initialised() records that, and returns whether it had run before; the name is
// argv[0].
bool initialised() noexcept;
bool mark_initialised(std::string program_name);
void unmark_initialised() noexcept;

// argv[0] of this program.
const std::string& program_name() noexcept;

}  // namespace forklift::inline abi_0_1::process
