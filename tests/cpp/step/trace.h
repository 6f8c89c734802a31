// The instructions that an operation executes, recorded once, and the quickest way to each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/stepper.h"

namespace forklift::test {

class Trace {
 public:
  // Steps the tracee to its end marker (or whatever else ends it).
  Tracee::Stop record(Tracee& tracee);
  // Instructions recorded.
  std::size_t size() const noexcept { return counters_.size(); }
  // Where the operation stands after k of them.
  std::uint64_t counter(std::size_t k) const { return counters_[k]; }
  // The numbers of instructions after which a death is worth looking at: all, but for the middle of a copy.
  std::vector<std::size_t> points() const;
  // Brings another tracee of the same operation to where it stands after k of them: at full speed to a
  // breakpoint near by, then step by step. kTrap, unless the tracee took another way and ended.
  Tracee::Stop replay(Tracee& tracee, std::size_t k) const;

 private:
  struct Anchor {
    std::size_t at = 0;   // instructions before it
    unsigned passes = 0;  // times that its address was passed before
  };
  void find_anchors();
  bool is_inside_repetition(std::size_t k) const;

  std::vector<std::uint64_t> counters_;
  std::vector<Anchor> anchors_;  // for each instruction the cheapest start
};

}  // namespace forklift::test
