// Why a program stands still, in words: the causes of stuck waits, the likeliest first, each with what to do.
//
// Thread safety: one thread's.
#pragma once

#include <string>
#include <vector>

#include "inspect/stuck.h"

namespace forklift::inline abi_0_1::inspect {

// The order is that of their weight: an earlier one explains later ones.
enum class Cause : std::uint8_t {
  kStopped,       // somebody who could end the wait is stopped
  kDeadlock,      // a cycle of locks, or one lock taken twice
  kLostHolder,    // a lock's holder has ended as a thread
  kMixedCycle,    // a cycle over a lock and something else
  kLostThread,    // a forked process waits for a thread that it does not have
  kInput,         // a process reads its standard input, and another one waits for its end
  kLostWorker,    // a child has ended, and a message is waited for
  kNoFreeWorker,  // every worker of a pool waits itself
  kFull,          // a queue is full, and nobody takes from it
  kNotDone,       // messages were taken, and never marked done
  kShort,         // a barrier, a latch: too few come
  kNoUnit,        // a semaphore
  kNoNotice,      // a condition, an event
  kNoMessage,     // nobody is left who could put
  kOther
};

struct Finding {
  Cause cause = Cause::kOther;
  std::string text;    // one sentence
  std::string advice;  // what to do
  std::vector<pid_t> processes;
};

// "lock-cycle", "queue-full", ...: for programs.
const char* name_of(Cause cause) noexcept;
// "5.2 s"
std::string seconds_text(double seconds);
// "sleeps", "is stopped", "was killed by SIGKILL".
std::string state_of(const ProcessState& state);

class Words {
 public:
  explicit Words(const Snapshot& snapshot) : snapshot_(snapshot) {}

  // "process 123 (loader)", with the thread's id unless it is the main one.
  std::string process(std::size_t member) const;
  std::string actor(const Actor& actor) const;
  // `the Lock "frames"`, "queue 7".
  std::string object(const arena::Object& object) const;
  // "a message in queue 7, which is empty", "Lock 3, which process 123 holds".
  std::string target(const Target& target) const;
  std::string wait(const Wait& wait) const;

 private:
  const Snapshot& snapshot_;
};

// How many messages are in a queue, and went through it.
struct Level {
  std::uint64_t messages = 0;
  std::uint64_t capacity = 0;    // 0: no bound
  std::uint64_t put = 0;         // since its creation, modulo 2^30
  std::uint64_t got = 0;         // likewise
  std::uint64_t unfinished = 0;  // put and not marked done
  bool acknowledges = false;     // it delivers at least once: messages are acknowledged, and not marked done
};
Level level_of(const channel::ChannelRow& row) noexcept;

std::vector<Finding> explain(const Snapshot& snapshot, const Stuck& stuck);

}  // namespace forklift::inline abi_0_1::inspect
