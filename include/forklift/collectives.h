// Group: collectives on tensors over processes, as MPI and torch.distributed have them, in shared memory.
//
//   void train(int rank, forklift::Tensor shards) {
//     forklift::Group group = forklift::Group::world();          // of the spawn() that started this process
//     forklift::Tensor gradient = gradient_of(shards.select(0, rank));
//     group.all_reduce(gradient, forklift::Reduction::kMean);    // in place: the same bits at all ranks
//     if (group.rank() == 0) report(gradient);
//     group.barrier();
//   }
//   static const forklift::Registered<&train> registered_train{"train"};
//   forklift::spawn(train, 4, shards);
//
//   forklift::GroupHandle handle = forklift::Group::create(2);   // or by hand: it travels as any argument does
//   forklift::Group group = forklift::Group::join(handle, 0);    // and in another process join(handle, 1)
//
//   forklift::CollectiveFuture sum = group.all_reduce_async(x, forklift::Reduction::kSum);
//   compute_something_else();
//   sum.get();
//
// All ranks make the same calls in the same order, with the same dtype, shape, root and reduction. A rank reads the
// others' tensors where they lie in the arena (forklift::Tensor's own memory, torch's after it was shared) and writes
// only its own; nothing is copied in between. Other memory and tensors with gaps are copied into a scratch block of the
// arena first, which the group keeps up to 64 MiB; an all_reduce of other memory passes through 2 MiB of it (128 KiB a
// rank in groups of more than 16). Tensors of up to 4 KiB travel within the call itself.
//
//   barrier          until all ranks have come
//   broadcast        x of the root to all
//   reduce           x of all, combined, into x of the root
//   all_reduce       ... into x of all
//   gather           x of all, one after the other, into `out` of the root, which has size() times as many elements
//   all_gather       ... into `out` of all
//   scatter          parts of the root's x, which has size() times as many elements as `out`, to all
//   reduce_scatter   x of all, combined; of the result, part r into `out` of rank r
//   all_to_all       part j of x at rank i becomes part i of `out` at rank j
//
// Reductions combine in the order of ranks for each element, so all ranks get the same bits, and so does every run with
// the same numbers of ranks. float16 and bfloat16 are accumulated in float32 and rounded once; integers wrap around.
// Bools have kMin (all) and kMax (any) only, complex numbers neither of them, and integers no kMean. A function of the
// program's own is applied to whole tensors, at each rank that gets the result.
//
// Errors:
//   PeerDied             a rank's process has ended, however: killed, or returned without coming. At once if the others
//                        wait (within a second), and for every later call. The group cannot be used any more.
//   CollectiveMismatch   the ranks have called different things: thrown at all ranks, with each rank's call. Nothing
//                        was done, and the group goes on.
//   CollectiveTimeout    the call's Wait was over before all had come. The others get BrokenGroup: the group cannot be
//                        used any more, since a rank that came late would meet nobody.
//   BrokenGroup          a rank has given a call up, or dropped its last Group.
//   Error                kInvalid, kUnsupported (memory of a device), kOverBudget: this rank's arguments. The others
//                        get CollectiveMismatch, which says so, and the group goes on. kBrokenByFork: see below.
// A result is undefined where its call has thrown, but for errors of the arguments and mismatches.
//
// Ownership: a Group is a handle; the rank leaves when the last copy in its process goes. Calls keep their tensors
// until they return, futures until they are dropped. Thread safety: yes. The calls of a rank's threads, and of futures,
// are done one after the other in the order in which they were issued; it has to be the same at all ranks. Process
// safety: one process a rank. Fork: a child of a rank is no rank (kBrokenByFork); futures stay the parent's.
//
// Invariants: no call waits for a dead rank; no call returns while another rank may still read this rank's tensors.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "forklift/error.h"
#include "forklift/fields.h"
#include "forklift/tensor.h"
#include "forklift/value.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// The group cannot be used any more.
class BrokenGroup : public Error {
 public:
  using Error::Error;
};
// A rank's process has ended.
class PeerDied : public BrokenGroup {
 public:
  using BrokenGroup::BrokenGroup;
};
// The call's own wait was over.
class CollectiveTimeout : public BrokenGroup {
 public:
  using BrokenGroup::BrokenGroup;
};
// The ranks have called different collectives.
class CollectiveMismatch : public Error {
 public:
  using Error::Error;
};

// How elements, or tensors, of several ranks are combined.
class Reduction {
 public:
  // The library's own, and kFunction for the program's.
  enum Kind {
    kSum,
    kProduct,
    kMin,
    kMax,
    kMean,
    kFunction
  };
  // Combines `next` into `accumulated`; both are valid during the call only, and `next` is read-only.
  using Function = std::function<void(const Tensor& accumulated, const Tensor& next)>;

  // One of the library's own.
  Reduction(Kind kind) noexcept : kind_(kind) {}
  // A function of the program's own.
  template <std::invocable<const Tensor&, const Tensor&> F>
  Reduction(F function) : kind_(kFunction), function_(std::move(function)) {}

  // Which; and the function of kFunction.
  Kind kind() const noexcept { return kind_; }
  const Function& function() const noexcept { return function_; }

 private:
  Kind kind_;
  Function function_;
};

namespace detail {
class RankCore;
class PendingCore;
}  // namespace detail

// A group's memory, by which processes join it.
struct GroupHandle {
  // The group's block in the arena; its bytes are the library's.
  Tensor memory;
};
template <>
struct ValueTraits<GroupHandle> : Fields<&GroupHandle::memory> {};

// A collective that is under way. Dropping it leaves the call alone, which goes on.
class CollectiveFuture {
 public:
  CollectiveFuture() noexcept = default;
  explicit CollectiveFuture(std::shared_ptr<detail::PendingCore> core) noexcept : core_(std::move(core)) {}

  // Whether there is a call behind it.
  bool valid() const noexcept { return core_ != nullptr; }
  // Whether it has ended, in whatever way.
  bool ready() const;
  // Until it has ended. False: it had not before the wait was over.
  void wait() const { (void)try_wait(Wait::forever()); }
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) const;
  // Waits; the tensor with the result. Throws what the call itself would have thrown.
  Tensor get() const;

 private:
  std::shared_ptr<detail::PendingCore> core_;
};

class Group {
 public:
  // The memory of a new group, for `size` processes. Throws Error: kInvalid, kOverBudget.
  static GroupHandle create(int size);
  // Becomes one of its ranks. Error: kInvalid (no such rank), kExists (another process is this rank), kCorrupt.
  static Group join(const GroupHandle& handle, int rank);
  // The group of the ranks that spawn() started together with this process. Error (kNotFound): it is none of them.
  static Group world();

  // Which rank this is, and of how many.
  int rank() const;
  int size() const;
  // The memory, to be handed on.
  const GroupHandle& handle() const;

  // All of them as above. `wait` is for the other ranks to come.
  void barrier(const Wait& wait = Wait::forever()) const;
  void broadcast(const Tensor& x, int root, const Wait& wait = Wait::forever()) const;
  void reduce(const Tensor& x, int root, const Reduction& how = Reduction::kSum,
              const Wait& wait = Wait::forever()) const;
  void all_reduce(const Tensor& x, const Reduction& how = Reduction::kSum,
                  const Wait& wait = Wait::forever()) const;
  void gather(const Tensor& x, const Tensor& out, int root, const Wait& wait = Wait::forever()) const;
  void all_gather(const Tensor& x, const Tensor& out, const Wait& wait = Wait::forever()) const;
  void scatter(const Tensor& x, const Tensor& out, int root, const Wait& wait = Wait::forever()) const;
  void reduce_scatter(const Tensor& x, const Tensor& out, const Reduction& how = Reduction::kSum,
                      const Wait& wait = Wait::forever()) const;
  void all_to_all(const Tensor& x, const Tensor& out, const Wait& wait = Wait::forever()) const;

  // The same, in a thread of the group's own. The tensors are the call's until the future is ready.
  CollectiveFuture barrier_async() const;
  CollectiveFuture broadcast_async(const Tensor& x, int root) const;
  CollectiveFuture reduce_async(const Tensor& x, int root, const Reduction& how = Reduction::kSum) const;
  CollectiveFuture all_reduce_async(const Tensor& x, const Reduction& how = Reduction::kSum) const;
  CollectiveFuture gather_async(const Tensor& x, const Tensor& out, int root) const;
  CollectiveFuture all_gather_async(const Tensor& x, const Tensor& out) const;
  CollectiveFuture scatter_async(const Tensor& x, const Tensor& out, int root) const;
  CollectiveFuture reduce_scatter_async(const Tensor& x, const Tensor& out,
                                        const Reduction& how = Reduction::kSum) const;
  CollectiveFuture all_to_all_async(const Tensor& x, const Tensor& out) const;

 private:
  explicit Group(std::shared_ptr<detail::RankCore> core) noexcept : core_(std::move(core)) {}
  detail::RankCore& core() const;
  std::shared_ptr<detail::RankCore> core_;
};

}  // namespace forklift::inline abi_0_1
