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

namespace forklift::process {

// Before a copy is made, or what lies in the buffers would be written by both processes.
void flush_streams();

// The pid of a copy of this process that runs `entry` and ends with what it returns as exit code, or, when
// an exception leaves it, with 1 after putting a report (report.h) into `reports`. Neither atexit handlers
// nor destructors of static objects run in the child.
Result<pid_t> fork_child(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                         const Identity& identity);

// The pid of a program that inherits the invitation's descriptors and variables besides this process's
// environment. `path` empty: argv[0], looked up in PATH.
Result<pid_t> start_program(const std::string& path, const std::vector<std::string>& argv,
                            const ProgramInvitation& invitation);

// Runs `entry` as fork_child() does and answers the exit code.
int run_and_report(const std::function<int()>& entry, const channel::ChannelPtr& reports,
                   const Identity& identity);

}  // namespace forklift::process
