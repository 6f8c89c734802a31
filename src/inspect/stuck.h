// Which waits can end, and which cannot.
//
//   const Stuck stuck(snapshot);
//   if (stuck.is_stuck(wait)) ...   stuck.enders(wait)      // who could have ended it, each of them stuck as well
//
// A wait is stuck if everyone who could end it is: by waiting for something that is stuck itself, by being stopped, or by
// being gone. This is the largest set of waits with that property: at first all waits without a deadline are in it, and
// one leaves it when somebody is found who could end it and is not in it. So "stuck" is certain, as far as the records are
// complete, and a program that merely has nothing to do is not stuck: somebody who reads a socket or the terminal, or
// computes, may end its waits.
//
// Thread safety: one thread's.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "inspect/snapshot.h"

namespace forklift::inline abi_0_1::inspect {

// A shorter wait is none yet: what is to end it may be under way.
inline constexpr std::int64_t kLongWaitNs = 1'000'000'000;

class Stuck {
 public:
  explicit Stuck(const Snapshot& snapshot);

  // In the order in which they began.
  const std::vector<const Wait*>& waits() const noexcept { return waits_; }
  bool is_stuck(const Actor& actor) const noexcept { return actors_.count(actor) != 0; }
  // Everyone who could end it.
  std::vector<Actor> enders(const Wait& wait) const;
  // Threads that sleep on a lock in memory of their own process, without a record, and that nobody can wake.
  const std::vector<Actor>& forlorn() const noexcept { return forlorn_; }

 private:
  void add_threads(std::size_t member, const Actor& but, std::vector<Actor>& into) const;
  std::vector<Actor> enders_of(const Target& target, const Actor& who, bool& unknown) const;
  // Is it asleep until another thread of its process does something?
  bool waits_within(const Actor& actor) const;
  bool may_end_by_itself(const Actor& actor) const;
  bool can_end(const Actor& actor) const;

  const Snapshot& snapshot_;
  std::set<Actor> actors_;
  std::vector<const Wait*> waits_;
  std::vector<Actor> forlorn_;
};

}  // namespace forklift::inline abi_0_1::inspect
