// The zygote: a small process from which children of the forkserver method are copied.
//
// The zygote is this program, executed anew, which has come to init() and stays there: however large this
// process has become, the zygote is what the program is before main does anything, with one thread and no
// descriptors of ours. It is made when the first child is asked for, so a process that never asks pays
// nothing. It ends when the socket to it closes, that is, with this process. Each process has its own zygote.
//
// How a child is made:
//   1. The parent reserves a slot for the child and enters the child as a holder of its channels, as for a
//      spawned child. It sends descriptors, variables and one end of a socket pair ("go") to the zygote.
//   2. The zygote checks that it has only one thread, and copies itself with CLONE_PARENT: the child is a
//      child of *this* process from its first instruction. Exit code, signals, pidfd and getppid() are those
//      of any child, and the zygote's end does not affect it.
//   3. The child sends its pid on "go" and waits. The zygote reports the pid, too. The parent opens a pidfd
//      and answers on "go". The child puts descriptors and variables in their places, and is then what a
//      spawned child is at init().
//
// So a child runs if and only if its parent knows it: if the parent dies or gives up before, "go" is at
// end-of-file and the child exits. If the zygote dies after step 2, the parent learns the pid from the child.
// The slot's lock belongs to an open file description that is open in the message, in the zygote until it has
// answered, and in the child; when none of these is left, the slot is free, as after any death. A zygote that
// is stopped is killed after a time.
//
// The copy is made by clone(2), since fork(3) has no CLONE_PARENT. The child's thread id is entered in the C
// library's thread word (PR_GET_TID_ADDRESS) and its robust list is set, as fork(3) does; pthread_atfork
// handlers do not run. That is sound because the zygote has only one thread, which is outside of every
// library. Where the kernel has no PR_GET_TID_ADDRESS, or the zygote has more threads (something made them
// before init()), no copy is made.
//
// Thread safety: yes. Fork: a child does not share its parent's zygote; it makes its own.
#pragma once

#include <sys/types.h>

#include <optional>

#include "process/child.h"
#include "process/invitation.h"

namespace forklift::inline abi_0_1::process {

inline constexpr const char* kZygoteVariable = "FORKLIFT_ZYGOTE";

// Starts a child with the invitation's descriptors and variables. nullopt: the caller has to start a fresh
// process; the reason was printed to stderr, once. kPeerDied: two zygotes in a row ended during the request;
// kStalled; kSystem.
Result<std::optional<Child>> start_copy(const ProgramInvitation& invitation);

// Ends the zygote, if there is one; the next start_copy() makes a new one.
void stop_zygote();
pid_t zygote_pid();  // 0: there is none

// For init(), in the zygote: returns only in the children, after their descriptors and variables were put in
// place.
void serve_as_zygote();
// The zygote's loop. Returns true in a child; false when the parent has closed its end of `connection` or
// sends what is no request.
bool serve_requests(os::Fd connection);

}  // namespace forklift::inline abi_0_1::process
