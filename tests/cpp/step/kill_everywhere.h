// Kills an operation after each of its instructions and has the survivors look at what is left.
//
//   class PutSmall : public Operation { ... };
//   PutSmall operation;
//   EXPECT_TRUE(survives_every_kill("put small", operation));
//
// For every kill point k: prepare() in the parent, a fresh child that runs enter() at full speed and then the
// first k instructions of act(), SIGKILL, check() in the parent. A first run records which instructions there
// are; later runs go to a breakpoint close to k at full speed and make only the last steps one by one, so
// that the cost grows with the number of instructions and not with its square.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/numbered_message.h"

namespace forklift::test {

// How the killed operation looked from outside.
struct Death {
  std::size_t point = 0;  // instructions that were executed
  bool returned = false;  // the operation had ended: what it promises must hold
  pid_t forked = 0;       // a child that it had forked, stopped before its first instruction, traced
};

class Operation {
 public:
  virtual ~Operation() = default;
  // Parent: the state from which the operation starts, for this run.
  virtual void prepare() {}
  // Child, before the first step.
  virtual void enter() {}
  // Parent, when the child has come to its first step.
  virtual void ready() {}
  // Child: what is stepped. A failure ends the child with abort().
  virtual void act() = 0;
  // Parent, after the death: recovery, accounting, audit, survivors that go on; leaves things as before
  // prepare().
  virtual void check(const Death& death, Findings& found) = 0;
};

struct StepOptions {
  // Step the child that the operation forks, from its first instruction, and not the operation.
  bool step_forked_child = false;
  // Beyond this many, kill points are thinned out evenly (with a varying remainder).
  std::size_t most_points = 6000;
};

struct Tally {
  std::size_t instructions = 0;  // of the operation, as recorded
  std::size_t points = 0;        // kills made
  std::size_t strayed = 0;       // kills of a child that had taken another way and was at its end already
};

// Stops at the first kill point that leaves damage and puts it into words in `found`.
Tally kill_everywhere(Operation& operation, const StepOptions& options, Findings& found);

// The same as an assertion; prints the number of kill points and adds it to the program's total.
testing::AssertionResult survives_every_kill(const std::string& name, Operation& operation,
                                             const StepOptions& options = {});

std::size_t total_kill_points();

}  // namespace forklift::test
