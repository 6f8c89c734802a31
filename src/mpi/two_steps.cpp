#include "mpi/two_steps.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <random>

#include "forklift/error.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

constexpr int kTag = 1;  // of the group's own communicators
constexpr const char* kPublished = "mpi-group";
using Name = std::array<char, 48>;

Name fresh_name() {
  std::random_device random;
  Name name{};
  (void)std::snprintf(name.data(), name.size(), "mpi-%d-%08x%08x", static_cast<int>(::getpid()), random(),
                      random());
  return name;
}

}  // namespace

void Messages::send(int to, const std::byte* data, std::size_t bytes) {
  const std::unique_lock lock = job_.serialized();
  for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
    const int here = static_cast<int>(std::min(kPiece, bytes - begin));
    receives_.push_back(false);
    JobCore::check(
        MPI_Isend(data + begin, here, MPI_BYTE, to, kTag, communicator_, &requests_.emplace_back()),
        "MPI_Isend");
  }
}

void Messages::receive(int from, std::byte* data, std::size_t bytes) {
  const std::unique_lock lock = job_.serialized();
  for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
    const int here = static_cast<int>(std::min(kPiece, bytes - begin));
    receives_.push_back(true);
    JobCore::check(
        MPI_Irecv(data + begin, here, MPI_BYTE, from, kTag, communicator_, &requests_.emplace_back()),
        "MPI_Irecv");
  }
}

// The caller may use its memory for something else now. What is being sent may reach the others as anything, which does
// no harm: the group is broken.
void Messages::give_up() noexcept {
  const std::unique_lock lock = job_.serialized();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (receives_[i]) (void)MPI_Cancel(&requests_[i]);
    (void)MPI_Request_free(&requests_[i]);
  }
}

void Messages::complete(Polling polling, const Wait& wait) {
  const Status done = job_.await(requests_, polling, wait);
  if (!done.ok()) give_up();
  requests_.clear();
  receives_.clear();
  if (done.ok()) return;
  if (done.code() == Code::kTimeout || done.code() == Code::kInterrupted) throw CollectiveTimeout(done);
  throw BrokenGroup({Code::kBroken, std::string(done.what())});
}

TwoSteps::TwoSteps(std::shared_ptr<JobCore> job)
    : job_(std::move(job)), local_size_(static_cast<int>(job_->node().ranks.size())), lanes_(local_size_) {
  std::vector<int> order;
  for (const Node& node : job_->nodes()) {
    lanes_ = std::min(lanes_, static_cast<int>(node.ranks.size()));
    equal_ = equal_ && node.ranks.size() == job_->node().ranks.size();
    order.insert(order.end(), node.ranks.begin(), node.ranks.end());
  }
  in_order_ = std::ranges::is_sorted(order);
  lane_ = job_->duplicate(job_->lane());
  world_ = job_->duplicate(job_->world());
  meet();
}

TwoSteps::~TwoSteps() {
  local_.reset();
  job_->release(lane_);
  job_->release(world_);
}

// The ranks of a node get one shared memory, whose name only they know, and only until all of them have come.
void TwoSteps::meet() {
  if (local_size_ == 1) {
    domain_ = Domain::own();
    local_ = domain_->in([] { return forklift::Group::join(forklift::Group::create(1), 0); });
    return;
  }
  const bool first = job_->local_rank() == 0;
  GroupHandle handle;
  Name name{};
  if (first) {
    name = fresh_name();
    domain_ = Domain::serve(name.data());
    handle = domain_->in([&] { return forklift::Group::create(local_size_); });
    domain_->publish(kPublished, handle.memory);
  }
  MPI_Request told = MPI_REQUEST_NULL, come = MPI_REQUEST_NULL;
  {
    const std::unique_lock lock = job_->serialized();
    JobCore::check(MPI_Ibcast(name.data(), static_cast<int>(name.size()), MPI_BYTE, 0, job_->local(), &told),
                   "MPI_Ibcast");
  }
  throw_if_failed(job_->await({&told, 1}, Polling::kSleeps, Wait::forever()));
  if (!first) {
    domain_ = Domain::attach(name.data(), kServerAnswers, {.stand_by = false});
    handle = {domain_->open<Tensor>(kPublished)};
  }
  local_ = domain_->in([&] { return forklift::Group::join(handle, job_->local_rank()); });
  {
    const std::unique_lock lock = job_->serialized();
    JobCore::check(MPI_Ibarrier(job_->local(), &come), "MPI_Ibarrier");
  }
  throw_if_failed(job_->await({&come, 1}, Polling::kSleeps, Wait::forever()));
  if (first) (void)domain_->unpublish(kPublished);
  domain_->close();
}

Tensor TwoSteps::make(std::int64_t count, DType dtype) const {
  return domain_->in([&] { return Tensor::empty({count}, dtype); });
}

TwoSteps::Flat TwoSteps::flat(const Tensor& x, bool read) const {
  if (x.is_contiguous()) return {x.reshape({x.numel()}), false};
  Flat copy{make(x.numel(), x.dtype()), true};
  if (read) copy.tensor.reshape(x.shape()).copy_from(x);
  return copy;
}

void TwoSteps::give_back(const Flat& flat, const Tensor& x) {
  if (!flat.is_copy) return;
  Tensor target = x;
  target.copy_from(flat.tensor.reshape(x.shape()));
}

std::byte* TwoSteps::scratch(std::size_t bytes) {
  if (scratch_bytes_ < bytes) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace forklift::inline abi_0_1::mpi
