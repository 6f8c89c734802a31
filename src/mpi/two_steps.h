// Collectives in two steps: a forklift::Group in the arena on each node, and messages of MPI between the nodes.
//
// The ranks with the same place in their nodes are a *lane*. A lane that reaches every node carries a share of what goes
// between the nodes. Every call begins with verify(), which all ranks leave with the same verdict: so a call that only some ranks
// have made, or made otherwise, changes nothing, and the ranks stay in step.
//
// Errors: those of forklift/mpi/group.h, thrown. Thread safety: one call at a time, by a lock.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/call.h"
#include "forklift/collectives.h"
#include "forklift/domain.h"
#include "mpi/job_core.h"

namespace forklift::inline abi_0_1::mpi {

// Messages that are begun together and waited for together. A large one goes in pieces, since MPI counts in ints.
class Messages {
 public:
  Messages(JobCore& job, MPI_Comm communicator) : job_(job), communicator_(communicator) {}
  void send(int to, const std::byte* data, std::size_t bytes);
  void receive(int from, std::byte* data, std::size_t bytes);
  // Throws CollectiveTimeout, BrokenGroup. Nothing is received after that.
  void complete(Polling polling, const Wait& wait);

 private:
  void give_up() noexcept;
  JobCore& job_;
  MPI_Comm communicator_;
  std::vector<MPI_Request> requests_;
  std::vector<bool> receives_;  // which of them are
};

class TwoSteps {
 public:
  explicit TwoSteps(std::shared_ptr<JobCore> job);
  ~TwoSteps();
  TwoSteps(const TwoSteps&) = delete;
  TwoSteps& operator=(const TwoSteps&) = delete;

  JobCore& job() const noexcept { return *job_; }
  int local_size() const noexcept { return local_size_; }

  void barrier(const Wait& wait);
  void broadcast(const Tensor& x, int root, const Wait& wait);
  void reduce(const Tensor& x, int root, const Reduction& how, const Wait& wait);
  void all_reduce(const Tensor& x, const Reduction& how, const Wait& wait);
  void gather(const Tensor& x, const Tensor& out, int root, const Wait& wait);
  void all_gather(const Tensor& x, const Tensor& out, const Wait& wait);
  void scatter(const Tensor& x, const Tensor& out, int root, const Wait& wait);
  void reduce_scatter(const Tensor& x, const Tensor& out, const Reduction& how, const Wait& wait);
  void all_to_all(const Tensor& x, const Tensor& out, const Wait& wait);

 private:
  // What a rank calls, and why its arguments are refused.
  struct Asked {
    collective::Call call;
    Status refused;
  };
  // A tensor's elements one behind the other: its own memory, or a copy.
  struct Flat {
    Tensor tensor;  // of one dimension
    bool is_copy = false;
    std::byte* data() const { return tensor.raw(); }
    Tensor part(std::int64_t begin, std::int64_t count) const { return tensor.narrow(0, begin, count); }
  };
  // The elements that a lane carries.
  struct Share {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };

  void meet();
  Tensor make(std::int64_t count, DType dtype) const;
  Flat flat(const Tensor& x, bool read) const;
  static void give_back(const Flat& flat, const Tensor& x);

  // verdict.cpp
  Asked asked(collective::Operation operation, const Tensor& part, int root) const;
  static void want_reduction(Asked& asked, const Reduction& how);
  static void want_memory(Asked& asked, const Tensor& x, bool written);
  void want_parts(Asked& asked, const Tensor& whole, const Tensor& part) const;
  void verify(const Asked& asked, const Wait& wait);
  template <class Work>
  void guarded(const Wait& wait, const Work& work);
  [[noreturn]] void name_the_dead(const PeerDied& error);

  // between_nodes.cpp
  bool is_small(std::size_t bytes) const noexcept;
  Share share_of(int lane, std::int64_t count) const noexcept;
  void sum_up(const Flat& x, const Reduction& how, const Wait& wait);
  void sum_up_shares(const Flat& x, Reduction::Kind how, const Wait& wait);
  void fold(const Flat& x, const Reduction& how, const Wait& wait);
  std::vector<std::byte*> all_from_lane(const Flat& x, const Wait& wait);
  void weigh(const Tensor& x, Reduction::Kind how) const;
  void combine_between(std::byte* data, std::int64_t count, DType dtype, collective::Op op, const Wait& wait);
  void combine_piece(std::byte* data, std::size_t count, DType dtype, collective::Op op, const Wait& wait);
  void spread(const Flat& x, const Wait& wait);
  void pass_on(const Flat& x, const Wait& wait);
  std::byte* scratch(std::size_t bytes);

  // moving.cpp
  int first_of(std::size_t node) const noexcept { return job_->nodes()[node].ranks.front(); }
  std::int64_t ranks_before(std::size_t node) const noexcept;
  std::pair<std::size_t, int> place_of(int rank) const noexcept;
  Flat by_nodes(const Tensor& out) const;
  void to_rank_order(const Flat& blocks, const Tensor& out) const;
  void to_node_order(const Tensor& x, const Flat& blocks) const;

  const std::shared_ptr<JobCore> job_;
  int local_size_;
  int lanes_;             // how many reach every node
  bool equal_ = true;     // all nodes have as many ranks
  bool in_order_ = true;  // the ranks in the order of nodes are the ranks in order
  MPI_Comm lane_ = MPI_COMM_NULL;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::optional<Domain> domain_;  // of the node
  std::optional<forklift::Group> local_;
  std::mutex mutex_;  // one call at a time; guards what follows
  bool broken_ = false;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace forklift::inline abi_0_1::mpi
