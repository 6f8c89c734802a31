// forklift/collectives.h over the room collective.
#include "forklift/collectives.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "api/attached.h"
#include "api/rank.h"
#include "api/stop.h"
#include "collective/helper.h"
#include "collective/shared_memory.h"
#include "process/identity.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1 {

namespace detail {

using collective::Op;
using collective::Operation;
using collective::Request;

class RankCore {
 public:
  RankCore(GroupHandle group, std::unique_ptr<collective::Transport> transport)
      : handle(std::move(group)), communicator(std::move(transport)), helper(communicator) {}

  const GroupHandle handle;
  collective::Communicator communicator;
  collective::Helper helper;
};

// What the program's function threw, which no Status carries.
using Thrown = std::shared_ptr<std::exception_ptr>;

class PendingCore {
 public:
  collective::PendingPtr call;
  Thrown thrown;
};

namespace {

[[noreturn]] void throw_collective(const Status& status) {
  switch (status.code()) {
    case Code::kPeerDied: throw PeerDied(status);
    case Code::kBroken: throw BrokenGroup(status);
    case Code::kMismatch: throw CollectiveMismatch(status);
    case Code::kTimeout:
    case Code::kInterrupted: throw CollectiveTimeout(status);
    default: throw Error(status);
  }
}

void require(const Status& status, const Thrown& thrown) {
  if (status.ok()) return;
  if (thrown && *thrown) std::rethrow_exception(*thrown);
  throw_collective(status);
}

collective::Function guarded(const Reduction::Function& function, const Thrown& thrown) {
  return [function, thrown](const Tensor& accumulated, const Tensor& next) -> Status {
    try {
      function(accumulated, next);
      return {};
    } catch (...) {
      *thrown = std::current_exception();
      return {Code::kInvalid, "the reduction's function threw"};
    }
  };
}

Thrown set_reduction(Request& request, const Reduction& how) {
  constexpr std::array kOps = {Op::kSum, Op::kProduct, Op::kMin, Op::kMax, Op::kMean, Op::kFunction};
  request.op = kOps[static_cast<std::size_t>(how.kind())];
  if (how.kind() != Reduction::kFunction) return nullptr;
  auto thrown = std::make_shared<std::exception_ptr>();
  request.function = guarded(how.function(), thrown);
  return thrown;
}

// What `call(limits)` answers.
template <class Call>
Status limited(RankCore& core, const Wait& wait, const Call& call) {
  const Limit limit = wait;
  const os::Deadline deadline = deadline_of(limit);
  return wait_stoppable(
      limit.stop, [&](domain::WaitHooks* hooks) { return call(collective::WaitLimits{deadline, hooks}); },
      [&] { core.communicator.transport().wake(); });
}

void run(RankCore& core, Request request, const Reduction* how, const Wait& wait) {
  const Thrown thrown = how != nullptr ? set_reduction(request, *how) : nullptr;
  require(
      limited(core, wait,
              [&](const collective::WaitLimits& limits) { return core.communicator.run(request, limits); }),
      thrown);
}

CollectiveFuture start(RankCore& core, Request request, const Reduction* how) {
  auto pending = std::make_shared<PendingCore>();
  if (how != nullptr) pending->thrown = set_reduction(request, *how);
  Result<collective::PendingPtr> call = core.helper.start(std::move(request));
  if (!call) throw_collective(call.status());
  pending->call = *std::move(call);
  return CollectiveFuture(std::move(pending));
}

// The block's lease in the memory of a handle.
Result<arena::LeasePtr> lease_of(const GroupHandle& handle) {
  const std::shared_ptr<Storage>& storage = handle.memory.storage();
  const arena::LeasePtr* lease = storage ? tensor::share_lease(*storage) : nullptr;
  if (lease == nullptr)
    return Status(Code::kInvalid, "this handle is no group's: " + handle.memory.to_string());
  return *lease;
}

GroupHandle handle_over(const arena::LeasePtr& block) {
  const auto bytes = static_cast<std::int64_t>(block->size());
  std::shared_ptr<Storage> memory = tensor::storage_over(block);
  StorageAccess::bind(*memory);
  return {value_or_throw(tensor::wrap(std::move(memory), DType::kUInt8, {bytes}))};
}

// The group that spawn() made, of this process; a forked child finds its parent's, which says so when it is used.
struct World {
  std::mutex mutex;
  std::shared_ptr<RankCore> core;
};
World& world() {
  static World* const instance = new World;  // processes may still use it while they exit
  return *instance;
}

std::shared_ptr<RankCore> join_core(const GroupHandle& handle, int rank) {
  arena::LeasePtr block = value_or_throw(lease_of(handle));
  StorageAccess::bind(*handle.memory.storage());
  std::unique_ptr<collective::Transport> transport =
      value_or_throw(collective::SharedMemory::join(std::move(block), rank));
  return std::make_shared<RankCore>(handle, std::move(transport));
}

// What offer_rank() has written.
GroupHandle claimed_handle(const std::string& text) {
  arena::Handle handle;
  if (std::sscanf(text.c_str(), "%u.%u.%u.%u.%lu.%lu", &handle.segment, &handle.block, &handle.generation,
                  &handle.lease, &handle.offset, &handle.length) != 6)
    throw Error({Code::kNotFound,
                 "this process is no rank of a group: it was not started by spawn(). Group::create() and "
                 "Group::join() make a group of any processes"});
  return handle_over(value_or_throw(home_node().arena().claim(handle)));
}

}  // namespace

std::function<Result<std::string>(domain::SlotRef child)> offer_rank(const GroupHandle& handle, int rank) {
  return [handle, rank](domain::SlotRef child) -> Result<std::string> {
    Result<arena::LeasePtr> block = lease_of(handle);
    if (!block) return block.status();
    if (Status status = collective::SharedMemory::expect(*block, rank, child); !status) return status;
    const Result<arena::Handle> offered = (*block)->arena().offer(*block, child);
    if (!offered) return offered.status();
    std::string text;
    for (const std::uint64_t word :
         {std::uint64_t{offered->segment}, std::uint64_t{offered->block}, std::uint64_t{offered->generation},
          std::uint64_t{offered->lease}, offered->offset, offered->length})
      text.append(text.empty() ? "" : ".").append(std::to_string(word));
    return text;
  };
}

void become_rank(const GroupHandle& handle, int rank) {
  std::shared_ptr<RankCore> core = join_core(handle, rank);
  const std::lock_guard<std::mutex> lock(world().mutex);
  world().core = std::move(core);
}

}  // namespace detail

using collective::Operation;

GroupHandle Group::create(int size) {
  return detail::handle_over(
      value_or_throw(collective::SharedMemory::create(detail::attached_node().arena(), size)));
}

Group Group::join(const GroupHandle& handle, int rank) {
  (void)detail::attached_node();  // a child that got no slot at its fork may get one now
  return Group(detail::join_core(handle, rank));
}

Group Group::world() {
  detail::World& here = detail::world();
  const std::lock_guard<std::mutex> lock(here.mutex);
  if (!here.core) {
    const process::Identity& self = process::own_identity();
    here.core = detail::join_core(detail::claimed_handle(self.group), self.rank);
  }
  return Group(here.core);
}

detail::RankCore& Group::core() const {
  if (!core_) throw Error({Code::kClosed, "this Group was moved from"});
  return *core_;
}

int Group::rank() const { return core().communicator.transport().rank(); }
int Group::size() const { return core().communicator.transport().size(); }
const GroupHandle& Group::handle() const { return core().handle; }

void Group::barrier(const Wait& wait) const {
  detail::RankCore& rank = core();
  const Status met = detail::limited(
      rank, wait, [&](const collective::WaitLimits& limits) { return rank.communicator.barrier(limits); });
  if (!met) detail::throw_collective(met);
}
void Group::broadcast(const Tensor& x, int root, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kBroadcast, .in = x, .out = x, .root = root}, nullptr, wait);
}
void Group::reduce(const Tensor& x, int root, const Reduction& how, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kReduce, .in = x, .out = x, .root = root}, &how, wait);
}
void Group::all_reduce(const Tensor& x, const Reduction& how, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kAllReduce, .in = x, .out = x}, &how, wait);
}
void Group::gather(const Tensor& x, const Tensor& out, int root, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kGather, .in = x, .out = out, .root = root}, nullptr, wait);
}
void Group::all_gather(const Tensor& x, const Tensor& out, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kAllGather, .in = x, .out = out}, nullptr, wait);
}
void Group::scatter(const Tensor& x, const Tensor& out, int root, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kScatter, .in = x, .out = out, .root = root}, nullptr, wait);
}
void Group::reduce_scatter(const Tensor& x, const Tensor& out, const Reduction& how, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kReduceScatter, .in = x, .out = out}, &how, wait);
}
void Group::all_to_all(const Tensor& x, const Tensor& out, const Wait& wait) const {
  detail::run(core(), {.operation = Operation::kAllToAll, .in = x, .out = out}, nullptr, wait);
}

CollectiveFuture Group::barrier_async() const { return detail::start(core(), {}, nullptr); }
CollectiveFuture Group::broadcast_async(const Tensor& x, int root) const {
  return detail::start(core(), {.operation = Operation::kBroadcast, .in = x, .out = x, .root = root},
                       nullptr);
}
CollectiveFuture Group::reduce_async(const Tensor& x, int root, const Reduction& how) const {
  return detail::start(core(), {.operation = Operation::kReduce, .in = x, .out = x, .root = root}, &how);
}
CollectiveFuture Group::all_reduce_async(const Tensor& x, const Reduction& how) const {
  return detail::start(core(), {.operation = Operation::kAllReduce, .in = x, .out = x}, &how);
}
CollectiveFuture Group::gather_async(const Tensor& x, const Tensor& out, int root) const {
  return detail::start(core(), {.operation = Operation::kGather, .in = x, .out = out, .root = root}, nullptr);
}
CollectiveFuture Group::all_gather_async(const Tensor& x, const Tensor& out) const {
  return detail::start(core(), {.operation = Operation::kAllGather, .in = x, .out = out}, nullptr);
}
CollectiveFuture Group::scatter_async(const Tensor& x, const Tensor& out, int root) const {
  return detail::start(core(), {.operation = Operation::kScatter, .in = x, .out = out, .root = root},
                       nullptr);
}
CollectiveFuture Group::reduce_scatter_async(const Tensor& x, const Tensor& out, const Reduction& how) const {
  return detail::start(core(), {.operation = Operation::kReduceScatter, .in = x, .out = out}, &how);
}
CollectiveFuture Group::all_to_all_async(const Tensor& x, const Tensor& out) const {
  return detail::start(core(), {.operation = Operation::kAllToAll, .in = x, .out = out}, nullptr);
}

bool CollectiveFuture::ready() const { return core_ != nullptr && core_->call->done(); }

bool CollectiveFuture::try_wait(const Wait& wait) const {
  if (!core_) throw Error({Code::kInvalid, "this CollectiveFuture has no call"});
  const detail::Limit limit = wait;
  const os::Deadline deadline = detail::deadline_of(limit);
  (void)detail::wait_stoppable(
      limit.stop, [&](domain::WaitHooks* hooks) { return core_->call->wait({deadline, hooks}); }, [] {});
  return core_->call->done();
}

Tensor CollectiveFuture::get() const {
  if (!core_) throw Error({Code::kInvalid, "this CollectiveFuture has no call"});
  detail::require(core_->call->wait({}), core_->thrown);
  return core_->call->request().out;
}

}  // namespace forklift::inline abi_0_1
