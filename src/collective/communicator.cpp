#include "collective/communicator.h"

#include <string>
#include <utility>

#include "collective/request_plan.h"
#include "tensor/operations.h"
#include "tensor/storage.h"

namespace forklift::inline abi_0_1::collective {
namespace {

const Call kBarrier{};

bool is_in_place(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce ||
         operation == Operation::kAllReduce;
}

// May writing to one of the two change the other?
bool share_memory(const Tensor& a, const Tensor& b) {
  return a.storage() && b.storage() && a.storage()->bytes() != 0 && b.storage()->bytes() != 0 &&
         a.storage()->data() < b.storage()->data() + b.storage()->bytes() &&
         b.storage()->data() < a.storage()->data() + a.storage()->bytes();
}

// Does this rank's part lie where it belongs in the whole (as MPI_IN_PLACE says)? No other rank reads there what this one writes: the
// result of a part is written where only its owner reads, and what is gathered where nobody does.
bool is_in_its_place(const Request& request, int rank) {
  const bool gathers = request.operation == Operation::kAllGather || request.operation == Operation::kGather;
  if (!gathers && request.operation != Operation::kScatter && request.operation != Operation::kReduceScatter)
    return false;
  const Tensor& whole = gathers ? request.out : request.in;
  const Tensor& part = gathers ? request.in : request.out;
  return whole.is_contiguous() && part.is_contiguous() &&
         part.raw() == whole.raw() + static_cast<std::size_t>(rank) * part.nbytes();
}

// A tensor in C order over memory that the caller keeps.
Result<Tensor> tensor_over(const std::byte* memory, const Tensor& like, Dims shape, bool readonly) {
  const std::size_t bytes = like.item_size() * static_cast<std::size_t>([&] {
                              std::int64_t count = 1;
                              for (std::size_t i = 0; i < shape.size(); ++i) count *= shape[i];
                              return count;
                            }());
  if (bytes == 0) return tensor::wrap(nullptr, like.dtype(), std::move(shape), 0, readonly);
  Result<std::shared_ptr<Storage>> storage = tensor::borrowed_storage(const_cast<std::byte*>(memory), bytes);
  if (!storage) return storage.status();
  return tensor::wrap(*std::move(storage), like.dtype(), std::move(shape), 0, readonly);
}

Result<Tensor> heap_tensor(const Tensor& like, Dims shape) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) count *= shape[i];
  Result<std::shared_ptr<Storage>> storage =
      tensor::heap_storage(static_cast<std::size_t>(count) * like.item_size());
  if (!storage) return storage.status();
  return tensor::wrap(*std::move(storage), like.dtype(), std::move(shape));
}

// After these the ranks may not be in step any more, unless all of them learn of it.
bool breaks_group(const Status& status) {
  return status.code() != Code::kPeerDied && status.code() != Code::kBroken &&
         status.code() != Code::kTimeout && status.code() != Code::kInterrupted;
}

}  // namespace

template <class Work>
Status Communicator::in_turn(std::uint64_t turn, const WaitLimits& limits, const Work& work) {
  if (Status status = turns_.wait(turn, limits); !status) {
    transport_->give_up();  // this rank will not come to a call that the others come to
    return status;
  }
  Status status = work();
  turns_.pass(turn);
  return status;
}

Status Communicator::run_in_turn(std::uint64_t turn, const Request& request, const WaitLimits& limits) {
  return in_turn(turn, limits, [&] { return perform(request, limits); });
}

Status Communicator::barrier(const WaitLimits& limits) {
  if (Status status = transport_->check(); !status) return status;
  return in_turn(turns_.take(), limits, [&] { return transport_->meet(kBarrier, {}, true, limits); });
}

Status Communicator::perform(const Request& request, const WaitLimits& limits) {
  if (Status status = transport_->check(); !status) return status;
  if (request.operation == Operation::kBarrier) return transport_->meet(kBarrier, {}, true, limits);
  Plan plan = this->plan(request);
  if (plan.refused) plan.refused = post_from(request, plan);
  if (!plan.refused) {
    plan.call.refused = plan.refused.code();
    plan.memory = {};
  }
  Status met = transport_->meet(plan.call, plan.memory, plan.small, limits);
  if (!plan.refused && (met || met.code() == Code::kMismatch)) return plan.refused;
  if (!met) return met;
  Status status = request.op == Op::kFunction ? fold(request, plan, limits) : exchange(request, plan, limits);
  if (!status) return status;
  return plan.receives && plan.gathered.storage() ? tensor::copy_elements(request.out, plan.gathered)
                                                  : Status();
}

// Decides which memory is posted and where the result is computed, and makes what is missing.
Status Communicator::post_from(const Request& request, Plan& plan) {
  const Tensor& in = request.in;
  const bool in_place = is_in_place(request.operation);
  if (plan.posts) {
    const std::size_t bytes = in.nbytes();
    const bool dense = in.is_contiguous();
    const bool as_it_lies =
        dense && (plan.small || (transport_->reachable(in.raw(), bytes) &&
                                 (in_place || !plan.receives || !share_memory(in, request.out) ||
                                  is_in_its_place(request, transport_->rank()))));
    const bool in_windows = dense && !plan.small && transport_->size() > 1 && request.op != Op::kFunction &&
                            request.operation == Operation::kAllReduce;
    if (as_it_lies || bytes == 0) {
      plan.memory = {bytes != 0 ? in.raw() : nullptr, bytes};
    } else if (in_windows) {
      const std::size_t ring = ring_bytes(bytes, piece_, transport_->size());
      const Result<std::byte*> staged = transport_->stage(ring);
      if (!staged) return staged.status();
      plan.memory = {*staged, bytes, ring};
    } else {
      std::byte* memory = small_.data();
      if (!plan.small) {
        const Result<std::byte*> staged = transport_->stage(bytes);
        if (!staged) return staged.status();
        memory = *staged;
      }
      plan.memory = {memory, bytes};
      Result<Tensor> copy = tensor_over(memory, in, in.shape(), false);
      if (!copy) return copy.status();
      if (Status status = tensor::copy_elements(*copy, in); !status) return status;
    }
  }
  if (!plan.receives) return {};
  if (request.out.is_contiguous()) {
    plan.out = request.out.raw();
    return {};
  }
  Result<Tensor> gathered = heap_tensor(request.out, request.out.shape());
  if (!gathered) return gathered.status();
  plan.gathered = *std::move(gathered);
  plan.out = plan.gathered.raw();
  // At the root of a broadcast the result is there already.
  if (request.operation == Operation::kBroadcast && plan.posts) plan.gathered = Tensor();
  return {};
}

Status Communicator::exchange(const Request& request, Plan& plan, const WaitLimits& limits) {
  const Exchange with{*transport_, limits, plan.call.dtype, plan.count, piece_};
  const auto done = [&]() -> Status {
    switch (request.operation) {
      case Operation::kBroadcast: return broadcast(with, request.root, plan.out);
      case Operation::kReduce: return reduce(with, request.op, request.root, plan.out);
      case Operation::kAllReduce: return all_reduce(with, request.op, plan.small, plan.memory, plan.out);
      case Operation::kGather: return gather(with, request.root, plan.out);
      case Operation::kAllGather: return all_gather(with, plan.out);
      case Operation::kScatter: return scatter(with, request.root, plan.out);
      case Operation::kReduceScatter: return reduce_scatter(with, request.op, plan.out);
      case Operation::kAllToAll: return all_to_all(with, plan.out);
      case Operation::kBarrier: break;
    }
    return {};
  };
  Status status = done();
  if (!status && breaks_group(status)) transport_->give_up();
  return status;
}

// A reduction by the caller's function: each rank that gets the result applies it to whole tensors, in rank order.
Status Communicator::fold(const Request& request, Plan& plan, const WaitLimits& limits) {
  const bool scatters = request.operation == Operation::kReduceScatter;
  const std::size_t bytes = plan.count * item_size(plan.call.dtype);
  const std::size_t begin = scatters ? static_cast<std::size_t>(transport_->rank()) * bytes : 0;
  Status failed;
  Tensor sum;
  const auto add = [&](int rank) -> Status {
    const Result<const std::byte*> theirs = transport_->peek(rank, begin, bytes);
    if (!theirs) return theirs.status();
    Result<Tensor> next = tensor_over(*theirs, request.out, request.out.shape(), true);
    if (!next) return next.status();
    if (rank != 0) return request.function(sum, *next);
    Result<Tensor> made = heap_tensor(request.out, request.out.shape());
    if (!made) return made.status();
    sum = *std::move(made);
    return tensor::copy_elements(sum, *next);
  };
  for (int rank = 0; plan.receives && rank < transport_->size() && failed; ++rank) failed = add(rank);
  // Also after a failure of the function: the other ranks do not depend on it.
  const bool to_root = request.operation == Operation::kReduce;
  const int readers = to_root ? (transport_->rank() == request.root ? Transport::kNoRank : request.root)
                              : Transport::kEveryRank;
  if (Status status = transport_->finish(readers, limits); !status) return status;
  if (!failed || !plan.receives) return failed;
  plan.gathered = Tensor();
  return tensor::copy_elements(request.out, sum);
}

}  // namespace forklift::inline abi_0_1::collective
