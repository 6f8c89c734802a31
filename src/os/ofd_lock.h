// Open-file-description locks on single bytes of a file: how a process shows that it is alive.
//
// The lock belongs to the open file description, not to a process: it is freed by the kernel when the last
// descriptor of that description goes, by death or by exec (with close-on-exec). A forked child shares its
// parent's descriptions, so whoever forks must give each process a description of its own (Fd::reopen).
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace forklift::os {

// True: taken (or held already by this description). False: another description holds it.
Result<bool> try_lock_byte(const Fd& description, std::uint64_t byte);
// The same for a lock that several descriptions may have at once. Turns one of the other sort into one of
// this sort, and try_lock_byte the reverse, in one step.
Result<bool> try_share_byte(const Fd& description, std::uint64_t byte);
Status unlock_byte(const Fd& description, std::uint64_t byte);

// Does a description other than this one hold the byte, in either way?
Result<bool> byte_is_locked(const Fd& description, std::uint64_t byte);

}  // namespace forklift::os
