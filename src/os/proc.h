// What /proc tells about processes and threads, and who we are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "os/fd.h"

namespace forklift::os {

// State letter of a process or thread of this pid namespace ('R', 'S', 'D', 'T', 't', 'Z', ...); 0 if it is
// gone.
char task_state(pid_t task) noexcept;

// Start time in clock ticks since boot (field 22 of /proc/PID/stat); 0 if it cannot be read. With the pid
// it names a process, but both survive exec, so it never proves that a program is still the same.
std::uint64_t start_time(pid_t pid) noexcept;

// Is there no process (not even one that nobody has waited for) of this pid?
bool is_gone(pid_t pid) noexcept;

// Does the process map the file with this inode? nullopt where that cannot be learnt: no permission, or no
// descriptor left to read its maps with.
std::optional<bool> maps_inode(pid_t pid, std::uint64_t inode) noexcept;

// The inode of this process's pid namespace: pids of another one mean nothing here.
std::uint64_t pid_namespace() noexcept;

// How many processors this thread may run on, at least 1.
int allowed_cpus() noexcept;

// How many processors the machine has, whether this process may use them or not; at least 1.
int online_cpus() noexcept;

// The processor that this thread runs on now, -1 if unknown.
int current_cpu() noexcept;

// A descriptor for a process (pidfd_open). Readable once it has ended.
Result<Fd> open_pidfd(pid_t pid);

// Has the process behind the pidfd ended? Waits up to timeout_ms (-1: without end).
// kInterrupted when a signal handler ran first.
Result<bool> wait_pidfd(const Fd& pidfd, int timeout_ms);

}  // namespace forklift::os
