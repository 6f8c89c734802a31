// The zygote: a small process from which children of the forkserver method are copied.
//
// It is this program, executed anew, that has come to init() and stays there: whatever this process has grown
// to since, the zygote is what the program is before main does anything, with one thread and no descriptors
// of ours. It is made when the first child is asked for, so who never asks pays nothing, and ends when the
// socket to it closes, that is, with this process. Each process has its own.
//
// How a child is made:
//   1. The parent reserves its slot and enters it as a holder of its channels, as for a spawned child, and
//      sends descriptors, variables and one end of a socket pair ("go") to the zygote.
//   2. The zygote sees that it has one thread, and copies itself with CLONE_PARENT: the child is a child of
//      *this* process from its first instruction. Exit code, signals, pidfd, getppid() are those of any
//      child, and the zygote's end means nothing to it.
//   3. The child says its pid on "go" and waits. The zygote says it, too. The parent opens a pidfd and
//      answers "go". The child puts descriptors and variables in their places and is what a spawned child is
//      at init().
//
// So a child runs exactly if its parent knows it: where the parent dies or gives up before, "go" is at its
// end and the child exits. Where the zygote dies after 2, the parent learns the pid from the child. The
// slot's lock is on a description that is open in the message, in the zygote until it has answered, and in
// the child; when none of them is left the slot is free, as after any death. A zygote that is stopped is
// killed after a time.
//
// The copy is made by clone(2), since fork(3) knows no CLONE_PARENT: the child's thread is entered in the C
// library's thread word (PR_GET_TID_ADDRESS) and robust list as fork(3) does it; pthread_atfork handlers do
// not run. That is sound because one thread is all there is, and it is outside of every library. Where the
// kernel has no PR_GET_TID_ADDRESS, or the zygote has more threads (something made them before init()), no
// copy is made.
//
// Thread safety: yes. Fork: a child has no zygote, and makes its own.
#pragma once

#include <sys/types.h>

#include <optional>

#include "process/child.h"
#include "process/invitation.h"

namespace forklift::process {

inline constexpr const char* kZygoteVariable = "FORKLIFT_ZYGOTE";

// A child that the invitation's descriptors and variables are given to. nullopt: it has to be a fresh
// process; why was said on stderr, once. kPeerDied: two zygotes ended while they were at it; kStalled;
// kSystem.
Result<std::optional<Child>> start_copy(const ProgramInvitation& invitation);

// Ends the zygote, if there is one; the next child has a new one made.
void stop_zygote();
pid_t zygote_pid();  // 0: there is none

// For init(), in the zygote: returns in the children only, what they were sent in its place.
void serve_as_zygote();
// Its work: true in a child; false when the parent has closed its end of `connection`, or sends what is no
// request.
bool serve_requests(os::Fd connection);

}  // namespace forklift::process
