#include "forklift/mpi/group.h"

#include "mpi/two_steps.h"

namespace forklift::inline abi_0_1::mpi {

Group::Group(Job& job) : core_(std::make_shared<TwoSteps>(job.core())) {}

int Group::rank() const noexcept { return core_->job().rank(); }
int Group::size() const noexcept { return core_->job().size(); }
const std::vector<Node>& Group::nodes() const noexcept { return core_->job().nodes(); }
int Group::local_rank() const noexcept { return core_->job().local_rank(); }
int Group::local_size() const noexcept { return core_->local_size(); }

void Group::barrier(const Wait& wait) const { core_->barrier(wait); }
void Group::broadcast(const Tensor& x, int root, const Wait& wait) const { core_->broadcast(x, root, wait); }
void Group::reduce(const Tensor& x, int root, const Reduction& how, const Wait& wait) const {
  core_->reduce(x, root, how, wait);
}
void Group::all_reduce(const Tensor& x, const Reduction& how, const Wait& wait) const {
  core_->all_reduce(x, how, wait);
}
void Group::gather(const Tensor& x, const Tensor& out, int root, const Wait& wait) const {
  core_->gather(x, out, root, wait);
}
void Group::all_gather(const Tensor& x, const Tensor& out, const Wait& wait) const {
  core_->all_gather(x, out, wait);
}
void Group::scatter(const Tensor& x, const Tensor& out, int root, const Wait& wait) const {
  core_->scatter(x, out, root, wait);
}
void Group::reduce_scatter(const Tensor& x, const Tensor& out, const Reduction& how, const Wait& wait) const {
  core_->reduce_scatter(x, out, how, wait);
}
void Group::all_to_all(const Tensor& x, const Tensor& out, const Wait& wait) const {
  core_->all_to_all(x, out, wait);
}

}  // namespace forklift::inline abi_0_1::mpi
