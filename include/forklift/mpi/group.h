// Group: the collectives of forklift::Group over all ranks of an MPI job, on any number of nodes.
//
//   int main(int argc, char** argv) {
//     forklift::mpi::Job job(argc, argv);
//     forklift::mpi::Group group(job);
//     forklift::Tensor gradient = gradient_of(group.rank());
//     group.all_reduce(gradient, forklift::Reduction::kMean);      // in place: the same bits at all ranks
//     std::vector<double> errors(100);
//     group.all_reduce(std::span(errors), forklift::Reduction::kMax);
//     group.barrier();
//   }
//
//   mpirun -n 4 ./train
//
// In two steps: in the arena on each node, then between the nodes by MPI. In all_reduce and broadcast every rank of a node
// takes its share of the tensor to the ranks with the same place in the other nodes, as far as there is one in each; the
// other calls go between nodes through one rank of each node. reduce and reduce_scatter cost as much as all_reduce.
//
// The calls, their arguments and their exceptions are those of forklift/collectives.h, with what follows from the nodes:
//
//   - Reductions combine the ranks of a node in their order, and the nodes' results in the order of nodes. All ranks get
//     the same bits, and so does every run with the same nodes. float16 and bfloat16 are rounded once in each step.
//   - A tensor is read where it lies if it is of the arena: make the Group before the first tensor, and Tensor::empty's are.
//   - PeerDied where a rank of the same node has died; the ranks of other nodes cannot know, and wait until the job is aborted.
//     That is when the one that got PeerDied exits, or when the launcher does it.
//   - CollectiveTimeout and whatever else breaks the group: the same.
//   - CollectiveMismatch says what this rank has called, not what the others have. Nothing was done, and the group goes on.
//
// Ownership: a handle; its copies are the same group, and all have to be gone before the Job. Thread safety: yes; the calls
// of a rank's threads are done one after the other, in an order that has to be the same at all ranks. Process safety: one
// process a rank; a forked child is none. Making a group waits for all ranks, and they make their groups in the same order.
// Invariants: as forklift::Group's. MPI is called by one thread at a time (forklift/mpi/job.h).
#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "forklift/collectives.h"
#include "forklift/mpi/job.h"
#include "forklift/tensor.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1::mpi {

// What a Group is made of; the library's own.
class TwoSteps;

class Group {
 public:
  // Of all ranks of the job; all of them make one. Throws Error: kSystem, kNoSpace, ...
  explicit Group(Job& job);

  // Which rank this is, and of how many: the job's.
  int rank() const noexcept;
  int size() const noexcept;
  // The nodes, and this rank's place among the ranks of its node.
  const std::vector<Node>& nodes() const noexcept;
  int local_rank() const noexcept;
  int local_size() const noexcept;

  // As in forklift/collectives.h. `wait` is for the other ranks to come.
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

  // The same on elements that lie one behind the other. They are copied into the arena first.
  template <Element T>
  void broadcast(std::span<T> x, int root, const Wait& wait = Wait::forever()) const {
    broadcast(over(x), root, wait);
  }
  template <Element T>
  void reduce(std::span<T> x, int root, const Reduction& how = Reduction::kSum,
              const Wait& wait = Wait::forever()) const {
    reduce(over(x), root, how, wait);
  }
  template <Element T>
  void all_reduce(std::span<T> x, const Reduction& how = Reduction::kSum,
                  const Wait& wait = Wait::forever()) const {
    all_reduce(over(x), how, wait);
  }
  template <class T, Element U>
  void gather(std::span<T> x, std::span<U> out, int root, const Wait& wait = Wait::forever()) const {
    gather(over(x), over(out), root, wait);
  }
  template <class T, Element U>
  void all_gather(std::span<T> x, std::span<U> out, const Wait& wait = Wait::forever()) const {
    all_gather(over(x), over(out), wait);
  }
  template <class T, Element U>
  void scatter(std::span<T> x, std::span<U> out, int root, const Wait& wait = Wait::forever()) const {
    scatter(over(x), over(out), root, wait);
  }
  template <class T, Element U>
  void reduce_scatter(std::span<T> x, std::span<U> out, const Reduction& how = Reduction::kSum,
                      const Wait& wait = Wait::forever()) const {
    reduce_scatter(over(x), over(out), how, wait);
  }
  template <class T, Element U>
  void all_to_all(std::span<T> x, std::span<U> out, const Wait& wait = Wait::forever()) const {
    all_to_all(over(x), over(out), wait);
  }

 private:
  template <class T>
  static Tensor over(std::span<T> elements) {
    using Item = std::remove_const_t<T>;
    void* const memory = const_cast<Item*>(elements.data());  // read-only where T is const
    return Tensor::wrap(Storage::borrow(memory, elements.size_bytes()), dtype_of<Item>(),
                        {static_cast<std::int64_t>(elements.size())}, 0, std::is_const_v<T>);
  }

  std::shared_ptr<TwoSteps> core_;
};

}  // namespace forklift::inline abi_0_1::mpi
