// What /proc tells about processes and threads, the processors of this process, and pidfds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

// State letter of a process or thread of this pid namespace ('R', 'S', 'D', 'T', 't', 'Z', ...); 0 if it is
// gone.
char task_state(pid_t task) noexcept;

// Start time in clock ticks since boot (field 22 of /proc/PID/stat); 0 if it cannot be read. Together with
// the pid it identifies a process, but both survive exec, so they never prove that the process still runs the
// same program.
std::uint64_t start_time(pid_t pid) noexcept;

// True if no process has this pid, not even a zombie.
bool is_gone(pid_t pid) noexcept;

// The ids of the threads of a process, in ascending order; empty if it is gone.
std::vector<pid_t> tasks_of(pid_t process);

// What a small file of /proc says, at most its first 1023 bytes; nullopt if it cannot be read, with errno.
std::optional<std::string> read_proc(const std::string& path);

// Does the process map the file with this inode? nullopt if that is unknown: no permission, or no free
// descriptor to read its maps with.
std::optional<bool> maps_inode(pid_t pid, std::uint64_t inode) noexcept;

// The inode of this process's pid namespace: pids of another namespace mean nothing here.
std::uint64_t pid_namespace() noexcept;

// How many processors this thread may run on, at least 1.
int allowed_cpus() noexcept;

// How many processors the machine has, whether this process may use them or not; at least 1.
int online_cpus() noexcept;

// The processor that this thread runs on now, -1 if unknown.
int current_cpu() noexcept;

// Moves the calling thread to another of the processors that it may use, which stay the same. False: there is none.
bool leave_cpu(int cpu) noexcept;

// A descriptor for a process (pidfd_open). Readable once it has ended.
Result<Fd> open_pidfd(pid_t pid);

// Has the process behind the pidfd ended? Waits up to timeout_ms (-1: no time-out).
// kInterrupted when a signal handler ran first.
Result<bool> wait_pidfd(const Fd& pidfd, int timeout_ms);

}  // namespace forklift::inline abi_0_1::os
