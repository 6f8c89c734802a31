// RemoteError: an exception that left a function in another process, as its parent sees it.
//
//   try {
//     worker.join();
//   } catch (const forklift::RemoteError& error) {
//     error.type();      // "std::out_of_range"
//     error.message();   // its what()
//     error.causes();    // what it nests (std::throw_with_nested), outermost first
//     error.stack();     // where it was thrown, a frame a line: "load(std::string const&)+0x2f
//     (./train+0x51c2)" error.process(), error.pid(), error.rank();   // whose it is
//   }
//
// An exception that is no std::exception has a type and no message, but for strings, which are the message.
// The stack is that of the last throw of the exception, up to the function that the process runs; it costs
// nothing until an exception leaves that function. It is there where the C++ library is libstdc++ and the
// exception was thrown by the thread that ran the function; functions of an executable have names if it is
// linked with -rdynamic, and addresses for addr2line otherwise.
//
// A group of processes (forklift/group.h) throws ProcessRaisedError, which is the same with a rank, or, where
// a process ended by a signal or with an exit code, ProcessExitedError.
//
// Thread and process safety: values. Invariant: details never change; copies share them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace forklift::inline abi_0_1 {

class RemoteError : public std::runtime_error {
 public:
  // What is known of the exception and of the process that threw it.
  struct Details {
    std::string type;                 // "std::out_of_range"
    std::string message;              // its what(); empty where the exception is no std::exception
    std::vector<std::string> causes;  // the nested ones, outermost first: "std::system_error: ..."
    std::vector<std::string> stack;   // frames, innermost first; empty where there is none
    std::string process;              // name of the process
    pid_t pid = 0;                    // of that process
    int rank = -1;                    // in its group; -1: none
  };

  // As join() throws it.
  explicit RemoteError(Details details);

  // As in Details.
  const std::string& type() const noexcept { return details_->type; }
  const std::string& message() const noexcept { return details_->message; }
  const std::vector<std::string>& causes() const noexcept { return details_->causes; }
  const std::vector<std::string>& stack() const noexcept { return details_->stack; }
  const std::string& process() const noexcept { return details_->process; }
  pid_t pid() const noexcept { return details_->pid; }
  int rank() const noexcept { return details_->rank; }
  const Details& details() const noexcept { return *details_; }

 private:
  std::shared_ptr<const Details> details_;
};

// A member of a group threw.
class ProcessRaisedError : public RemoteError {
 public:
  using RemoteError::RemoteError;
};

// A member of a group was ended by a signal, or with an exit code other than 0.
class ProcessExitedError : public std::runtime_error {
 public:
  // As a group's join() throws it.
  ProcessExitedError(const std::string& process, int rank, pid_t pid, int exitcode);

  int rank() const noexcept { return rank_; }          // in its group
  pid_t pid() const noexcept { return pid_; }          // of the process
  int exitcode() const noexcept { return exitcode_; }  // as Process::exitcode: negative for a signal
  int signal() const noexcept { return exitcode_ < 0 ? -exitcode_ : 0; }  // that ended it; 0: none

 private:
  int rank_;
  pid_t pid_;
  int exitcode_;
};

}  // namespace forklift::inline abi_0_1
