// A rank's calls on tensors: checks the arguments, finds or makes memory that the others can read, has the algorithm
// run, and puts the result where the caller wants it.
//
//   Communicator group(std::move(transport));
//   Status status = group.run({.operation = Operation::kAllReduce, .in = x, .out = x, .op = Op::kSum}, {});
//
// Memory of the arena is read where it lies. Any other memory, and tensors with gaps, are copied into a scratch block
// of the transport first; those of a large all_reduce pass through it window by window (decisions/0342). A call whose
// arguments this rank refuses is posted all the same, as refused: the other ranks then fail with kMismatch instead of
// waiting, and the group stays in step (decisions/0221).
//
// Errors: kInvalid, kUnsupported, kOverBudget, ... for this rank's arguments; otherwise as Transport.
// Thread safety: yes; calls happen in the order of issue (turns.h).
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "collective/algorithms.h"
#include "collective/call.h"
#include "collective/rank_transport.h"
#include "collective/turns.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::collective {

// Combines the second tensor into the first one.
using Function = std::function<Status(const Tensor& accumulated, const Tensor& next)>;

struct Request {
  Operation operation = Operation::kBarrier;
  Tensor in{};   // what this rank contributes
  Tensor out{};  // where its result goes; of a broadcast, reduce and all_reduce the same tensor as `in`
  Op op = Op::kNone;
  Function function{};  // of Op::kFunction
  int root = -1;
};

class Communicator {
 public:
  // `piece`: Exchange::piece, the same at all ranks.
  explicit Communicator(std::unique_ptr<Transport> transport, std::size_t piece = kPieceBytes) noexcept
      : transport_(std::move(transport)), piece_(piece) {}

  Transport& transport() noexcept { return *transport_; }
  // The next call in the order of issue, for run_in_turn().
  std::uint64_t issue() noexcept { return turns_.take(); }
  Status run_in_turn(std::uint64_t turn, const Request& request, const WaitLimits& limits);
  Status run(const Request& request, const WaitLimits& limits) {
    if (Status status = transport_->check(); !status)
      return status;  // a forked child may not touch the turns
    return run_in_turn(turns_.take(), request, limits);
  }
  // As run() of a barrier, which has neither tensors nor a function.
  Status barrier(const WaitLimits& limits);

 private:
  struct Plan;
  template <class Work>
  Status in_turn(std::uint64_t turn, const WaitLimits& limits, const Work& work);
  Status perform(const Request& request, const WaitLimits& limits);
  Plan plan(const Request& request) const;
  Status post_from(const Request& request, Plan& plan);
  Status exchange(const Request& request, Plan& plan, const WaitLimits& limits);
  Status fold(const Request& request, Plan& plan, const WaitLimits& limits);

  std::unique_ptr<Transport> transport_;
  std::size_t piece_;
  Turns turns_;
  // Where a small tensor with gaps is put together.
  alignas(64) std::array<std::byte, kInlineBytes> small_{};
};

}  // namespace forklift::inline abi_0_1::collective
