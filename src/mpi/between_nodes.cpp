// Reductions and broadcasts: each lane takes its share between the nodes.
#include <algorithm>
#include <exception>
#include <vector>

#include "collective/combine.h"
#include "forklift/ops.h"
#include "mpi/agreement.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

using collective::Op;
using collective::Operation;

// Up to here every lane carries the whole tensor, which saves a step on the nodes.
constexpr std::size_t kSmall = 16 * 1024;
// So much at a time is exchanged and combined: what has been received is still in a cache when it is combined.
constexpr std::size_t kAtOnce = std::size_t{1} << 20;

Op op_of(Reduction::Kind kind) {
  switch (kind) {
    case Reduction::kSum: return Op::kSum;
    case Reduction::kProduct: return Op::kProduct;
    case Reduction::kMin: return Op::kMin;
    case Reduction::kMax: return Op::kMax;
    case Reduction::kMean: return Op::kMean;
    default: return Op::kFunction;
  }
}

// Where the part of a node begins.
std::size_t border(std::size_t count, std::size_t node, std::size_t nodes) { return count * node / nodes; }

}  // namespace

bool TwoSteps::is_small(std::size_t bytes) const noexcept { return bytes <= kSmall; }

// Equal shares, and what is left to the last lane.
TwoSteps::Share TwoSteps::share_of(int lane, std::int64_t count) const noexcept {
  const std::int64_t share = count / lanes_;
  return {share * lane, lane == lanes_ - 1 ? count - share * lane : share};
}

void TwoSteps::all_reduce(const Tensor& x, const Reduction& how, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kAllReduce, x, -1);
    want_reduction(call, how);
    want_memory(call, x, true);
    verify(call, begun);
    const Flat work = flat(x, true);
    sum_up(work, how, begun);
    give_back(work, x);
  });
}

void TwoSteps::reduce(const Tensor& x, int root, const Reduction& how, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kReduce, x, root);
    want_reduction(call, how);
    want_memory(call, x, root == job_->rank());
    verify(call, begun);
    Flat work{make(x.numel(), x.dtype()), true};
    work.tensor.reshape(x.shape()).copy_from(x);
    sum_up(work, how, begun);
    if (root == job_->rank()) give_back(work, x);
  });
}

void TwoSteps::reduce_scatter(const Tensor& x, const Tensor& out, const Reduction& how, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kReduceScatter, out, -1);
    want_reduction(call, how);
    want_memory(call, x, false);
    want_memory(call, out, true);
    want_parts(call, x, out);
    verify(call, begun);
    Flat work{make(x.numel(), x.dtype()), true};
    work.tensor.reshape(x.shape()).copy_from(x);
    sum_up(work, how, begun);
    give_back({work.part(job_->rank() * out.numel(), out.numel()), true}, out);
  });
}

// The mean of the nodes' means is that of the ranks if each counts for as many ranks as its node has.
void TwoSteps::weigh(const Tensor& x, Reduction::Kind how) const {
  if (how != Reduction::kMean || equal_) return;
  const double weight =
      static_cast<double>(local_size_) * static_cast<double>(job_->nodes().size()) / job_->size();
  ops::multiply(x, weight, x);
}

// The result in x of all ranks.
void TwoSteps::sum_up(const Flat& x, const Reduction& how, const Wait& wait) {
  const std::int64_t count = x.tensor.numel();
  if (count == 0) return;
  if (job_->nodes().size() == 1) return local_->all_reduce(x.tensor, how, wait);
  if (how.kind() == Reduction::kFunction) return fold(x, how, wait);
  if (!is_small(x.tensor.nbytes()) && count >= lanes_) return sum_up_shares(x, how.kind(), wait);
  if (local_size_ > 1) local_->all_reduce(x.tensor, how, wait);
  if (job_->local_rank() < lanes_) {
    weigh(x.tensor, how.kind());
    const std::vector<std::byte*> sources = all_from_lane(x, wait);
    collective::combine(op_of(how.kind()), x.tensor.dtype(),
                        std::vector<const std::byte*>(sources.begin(), sources.end()), x.data(),
                        static_cast<std::size_t>(count));
  }
  pass_on(x, wait);
}

// A node's ranks reduce a share each in the arena, the lanes combine the shares of all nodes, and the node's ranks read them from
// each other. Nodes of unequal sizes have fewer lanes than ranks: there all ranks of a node get the node's result first.
void TwoSteps::sum_up_shares(const Flat& x, Reduction::Kind how, const Wait& wait) {
  const std::int64_t count = x.tensor.numel();
  const std::int64_t main = count - count % lanes_, share = main / lanes_;
  if (local_size_ > 1 && equal_) {
    local_->reduce_scatter(x.part(0, main), x.part(job_->local_rank() * share, share), how, wait);
    if (main != count) local_->all_reduce(x.part(main, count - main), how, wait);
  } else if (local_size_ > 1) {
    local_->all_reduce(x.tensor, how, wait);
  }
  if (job_->local_rank() < lanes_) {
    const Share mine = share_of(job_->local_rank(), count);
    const Tensor part = x.part(mine.begin, mine.count);
    weigh(part, how);
    combine_between(part.raw(), mine.count, part.dtype(), op_of(how), wait);
  }
  spread(x, wait);
}

// A function is applied to whole tensors, in the order of nodes. Where it throws, the rank goes through the other steps all
// the same, since the others wait for it.
void TwoSteps::fold(const Flat& x, const Reduction& how, const Wait& wait) {
  std::exception_ptr thrown;
  const auto apply = [&](const auto& work) {
    if (thrown) return;
    try {
      work();
    } catch (const BrokenGroup&) {
      throw;
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  if (local_size_ > 1) apply([&] { local_->all_reduce(x.tensor, how, wait); });
  if (job_->local_rank() < lanes_) {
    const std::vector<std::byte*> sources = all_from_lane(x, wait);
    const std::size_t bytes = x.tensor.nbytes();
    Tensor folded = make(x.tensor.numel(), x.tensor.dtype());
    sync::copy_bytes(folded.raw(), sources[0], bytes);
    apply([&] {
      for (std::size_t node = 1; node < sources.size(); ++node)
        how.function()(folded, Tensor::wrap(Storage::borrow(sources[node], bytes), folded.dtype(),
                                            folded.shape(), 0, true));
    });
    sync::copy_bytes(x.data(), folded.raw(), bytes);
  }
  pass_on(x, wait);
  if (thrown) std::rethrow_exception(thrown);
}

// The whole tensor of every rank of the lane; its own where it is.
std::vector<std::byte*> TwoSteps::all_from_lane(const Flat& x, const Wait& wait) {
  const std::size_t bytes = x.tensor.nbytes(), nodes = job_->nodes().size();
  std::byte* const memory = scratch(bytes * nodes);
  std::vector<std::byte*> sources(nodes, x.data());
  Messages messages(*job_, lane_);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (node == job_->node_number()) continue;
    sources[node] = memory + node * bytes;
    messages.receive(static_cast<int>(node), sources[node], bytes);
    messages.send(static_cast<int>(node), x.data(), bytes);
  }
  messages.complete(Polling::kSleeps, wait);
  return sources;
}

void TwoSteps::combine_between(std::byte* data, std::int64_t count, DType dtype, Op op, const Wait& wait) {
  const std::size_t at_once = kAtOnce / item_size(dtype);
  for (std::size_t done = 0; done < static_cast<std::size_t>(count); done += at_once) {
    const std::size_t here = std::min(at_once, static_cast<std::size_t>(count) - done);
    combine_piece(data + done * item_size(dtype), here, dtype, op, wait);
  }
}

// Each node combines its part of the share, and sends it to the others.
void TwoSteps::combine_piece(std::byte* data, std::size_t count, DType dtype, Op op, const Wait& wait) {
  const std::size_t nodes = job_->nodes().size(), own = job_->node_number(), item = item_size(dtype);
  const auto begin = [&](std::size_t node) { return border(count, node, nodes); };
  const std::size_t mine = begin(own + 1) - begin(own);
  std::byte* const memory = scratch(nodes * mine * item);
  std::vector<const std::byte*> sources(nodes, data + begin(own) * item);
  Messages messages(*job_, lane_);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (node == own) continue;
    sources[node] = memory + node * mine * item;
    messages.receive(static_cast<int>(node), memory + node * mine * item, mine * item);
    messages.send(static_cast<int>(node), data + begin(node) * item, (begin(node + 1) - begin(node)) * item);
  }
  messages.complete(Polling::kYields, wait);
  collective::combine(op, dtype, sources, data + begin(own) * item, mine);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (node == own) continue;
    messages.receive(static_cast<int>(node), data + begin(node) * item,
                     (begin(node + 1) - begin(node)) * item);
    messages.send(static_cast<int>(node), data + begin(own) * item, mine * item);
  }
  messages.complete(Polling::kYields, wait);
}

// From the lanes, whose shares are complete, to all ranks of the node.
void TwoSteps::spread(const Flat& x, const Wait& wait) {
  if (local_size_ == 1) return;
  const std::int64_t count = x.tensor.numel();
  if (!equal_) {
    for (int lane = 0; lane < lanes_; ++lane) {
      const Share share = share_of(lane, count);
      local_->broadcast(x.part(share.begin, share.count), lane, wait);
    }
    return;
  }
  const std::int64_t main = count - count % lanes_, share = main / lanes_;
  local_->all_gather(x.part(job_->local_rank() * share, share), x.part(0, main), wait);
  if (main != count) local_->broadcast(x.part(main, count - main), lanes_ - 1, wait);
}

// To ranks without a lane.
void TwoSteps::pass_on(const Flat& x, const Wait& wait) {
  if (lanes_ < local_size_) local_->broadcast(x.tensor, 0, wait);
}

void TwoSteps::broadcast(const Tensor& x, int root, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kBroadcast, x, root);
    want_memory(call, x, root != job_->rank());
    verify(call, begun);
    const auto [node, local_root] = place_of(root);
    const bool here = node == job_->node_number();
    const Flat work = flat(x, root == job_->rank());
    if (here && local_size_ > 1) local_->broadcast(work.tensor, local_root, begun);
    const std::int64_t count = work.tensor.numel();
    const bool whole = is_small(work.tensor.nbytes()) || count < lanes_;
    if (job_->nodes().size() > 1 && job_->local_rank() < lanes_ && count != 0) {
      const Share share = whole ? Share{0, count} : share_of(job_->local_rank(), count);
      Messages messages(*job_, lane_);
      const Tensor part = work.part(share.begin, share.count);
      if (!here) messages.receive(static_cast<int>(node), part.raw(), part.nbytes());
      for (std::size_t to = 0; here && to < job_->nodes().size(); ++to)
        if (to != node) messages.send(static_cast<int>(to), part.raw(), part.nbytes());
      messages.complete(Polling::kYields, begun);
    }
    if (!here && whole) pass_on(work, begun);
    if (!here && !whole) spread(work, begun);
    if (root != job_->rank()) give_back(work, x);
  });
}

}  // namespace forklift::inline abi_0_1::mpi
