// Starting children: a fork that runs a function, or another program.
//
// Thread safety: yes; see forklift::Process for what a forked child of a threaded process may do.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "channel/channel.h"
#include "process/identity.h"
#include "process/invitation.h"

namespace forklift::inline abi_0_1::process {

// Call before a copy of the process is made; otherwise both processes would write what is in the buffers.
void flush_streams();

// Starts a copy of this process that runs `entry`, and returns its pid. The child's exit code is what `entry`
// returns; if an exception leaves `entry`, the child puts a report (report.h) into `reports` and exits with
// 1. Neither atexit handlers nor destructors of static objects run in the child.
Result<pid_t> fork_child(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                         const Identity& identity);

// Starts a program, which inherits the invitation's descriptors and variables besides this process's
// environment, and returns its pid. `path` empty: argv[0], looked up in PATH.
Result<pid_t> start_program(const std::string& path, const std::vector<std::string>& argv,
                            const ProgramInvitation& invitation);

// Runs `entry` as the child of fork_child() does, and returns the exit code.
int run_and_report(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                   const Identity& identity);

}  // namespace forklift::inline abi_0_1::process
