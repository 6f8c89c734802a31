// Open-file-description locks on single bytes of a file: with such a lock a process shows that it is alive.
//
// The lock belongs to the open file description, not to a process: the kernel releases it when the last
// descriptor of that description is closed, by death or by exec (with close-on-exec). A forked child shares
// its parent's descriptions, so code that forks must give each process a description of its own (Fd::reopen).
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

// True: the lock was taken (or this description held it already). False: another description holds it.
Result<bool> try_lock_byte(const Fd& description, std::uint64_t byte);
// As try_lock_byte, but for a shared lock, which several descriptions may hold at once. Each of the two
// functions converts this description's lock of the other kind in one step.
Result<bool> try_share_byte(const Fd& description, std::uint64_t byte);
// As try_lock_byte, but waits for the lock as long as that takes. kInterrupted: a signal handler ran first.
Status lock_byte(const Fd& description, std::uint64_t byte);
Status unlock_byte(const Fd& description, std::uint64_t byte);

// Does another description hold a lock on the byte, exclusive or shared?
Result<bool> byte_is_locked(const Fd& description, std::uint64_t byte);

}  // namespace forklift::inline abi_0_1::os
