// Calls that move tensors without combining them: blocks of whole nodes go between the nodes' first ranks, or the root.
#include <cstring>
#include <utility>

#include "mpi/agreement.h"

namespace forklift::inline abi_0_1::mpi {

using collective::Operation;

std::int64_t TwoSteps::ranks_before(std::size_t node) const noexcept {
  std::int64_t before = 0;
  for (std::size_t each = 0; each < node; ++each)
    before += static_cast<std::int64_t>(job_->nodes()[each].ranks.size());
  return before;
}

std::pair<std::size_t, int> TwoSteps::place_of(int rank) const noexcept {
  for (std::size_t node = 0; node < job_->nodes().size(); ++node) {
    const std::vector<int>& ranks = job_->nodes()[node].ranks;
    for (std::size_t local = 0; local < ranks.size(); ++local)
      if (ranks[local] == rank) return {node, static_cast<int>(local)};
  }
  return {0, 0};
}

// Memory for the parts of all ranks in the order of nodes: the tensor's own where that is the order of ranks.
TwoSteps::Flat TwoSteps::by_nodes(const Tensor& out) const {
  if (in_order_) return flat(out, false);
  return {make(out.numel(), out.dtype()), true};
}

void TwoSteps::to_rank_order(const Flat& blocks, const Tensor& out) const {
  if (in_order_) return give_back(blocks, out);
  const std::int64_t part = out.numel() / job_->size();
  const Flat ordered = flat(out, false);
  std::int64_t at = 0;
  for (const Node& node : job_->nodes()) {
    for (const int rank : node.ranks) {
      Tensor target = ordered.part(rank * part, part);
      target.copy_from(blocks.part(at++ * part, part));
    }
  }
  give_back(ordered, out);
}

void TwoSteps::to_node_order(const Tensor& x, const Flat& blocks) const {
  if (in_order_) {
    if (!blocks.is_copy) return;
    blocks.tensor.reshape(x.shape()).copy_from(x);
    return;
  }
  const std::int64_t part = x.numel() / job_->size();
  const Flat source = flat(x, true);
  std::int64_t at = 0;
  for (const Node& node : job_->nodes()) {
    for (const int rank : node.ranks) {
      Tensor target = blocks.part(at++ * part, part);
      target.copy_from(source.part(rank * part, part));
    }
  }
}

void TwoSteps::gather(const Tensor& x, const Tensor& out, int root, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    const bool is_root = root == job_->rank();
    Asked call = asked(Operation::kGather, x, root);
    want_memory(call, x, false);
    if (is_root) {
      want_memory(call, out, true);
      want_parts(call, out, x);
    }
    verify(call, begun);
    const auto [at_node, local_root] = place_of(root);
    const bool here = at_node == job_->node_number();
    const std::size_t bytes = x.nbytes();
    const Flat blocks = is_root ? by_nodes(out) : Flat{};
    const int collector = here ? local_root : 0;
    const bool collects = job_->local_rank() == collector;
    Tensor block;
    if (collects)
      block = is_root ? blocks.part(ranks_before(at_node) * x.numel(), local_size_ * x.numel())
                      : make(local_size_ * x.numel(), x.dtype());
    local_->gather(x, block, collector, begun);
    Messages messages(*job_, world_);
    if (collects && !here) messages.send(root, block.raw(), block.nbytes());
    for (std::size_t node = 0; is_root && node < job_->nodes().size(); ++node) {
      if (node == at_node) continue;
      messages.receive(first_of(node), blocks.data() + static_cast<std::size_t>(ranks_before(node)) * bytes,
                       job_->nodes()[node].ranks.size() * bytes);
    }
    messages.complete(Polling::kYields, begun);
    if (is_root) to_rank_order(blocks, out);
  });
}

void TwoSteps::all_gather(const Tensor& x, const Tensor& out, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kAllGather, x, -1);
    want_memory(call, x, false);
    want_memory(call, out, true);
    want_parts(call, out, x);
    verify(call, begun);
    const Flat blocks = by_nodes(out);
    const std::size_t own = job_->node_number(), bytes = x.nbytes();
    const bool leads = job_->local_rank() == 0;
    Tensor block = blocks.part(ranks_before(own) * x.numel(), local_size_ * x.numel());
    local_->gather(x, block, 0, begun);
    if (leads && job_->nodes().size() > 1) {
      Messages messages(*job_, world_);
      for (std::size_t node = 0; node < job_->nodes().size(); ++node) {
        if (node == own) continue;
        messages.receive(first_of(node), blocks.data() + static_cast<std::size_t>(ranks_before(node)) * bytes,
                         job_->nodes()[node].ranks.size() * bytes);
        messages.send(first_of(node), block.raw(), block.nbytes());
      }
      messages.complete(Polling::kYields, begun);
    }
    if (local_size_ > 1) local_->broadcast(blocks.tensor, 0, begun);
    to_rank_order(blocks, out);
  });
}

void TwoSteps::scatter(const Tensor& x, const Tensor& out, int root, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    const bool is_root = root == job_->rank();
    Asked call = asked(Operation::kScatter, out, root);
    want_memory(call, out, true);
    if (is_root) {
      want_memory(call, x, false);
      want_parts(call, x, out);
    }
    verify(call, begun);
    const auto [at_node, local_root] = place_of(root);
    const bool here = at_node == job_->node_number();
    const std::size_t bytes = out.nbytes();
    const Flat blocks = is_root ? by_nodes(x) : Flat{};
    const int dealer = here ? local_root : 0;
    Messages messages(*job_, world_);
    if (is_root) to_node_order(x, blocks);
    for (std::size_t node = 0; is_root && node < job_->nodes().size(); ++node) {
      if (node == at_node) continue;
      messages.send(first_of(node), blocks.data() + static_cast<std::size_t>(ranks_before(node)) * bytes,
                    job_->nodes()[node].ranks.size() * bytes);
    }
    Tensor block;
    if (job_->local_rank() == dealer) {
      block = is_root ? blocks.part(ranks_before(at_node) * out.numel(), local_size_ * out.numel())
                      : make(local_size_ * out.numel(), out.dtype());
      if (!here) messages.receive(root, block.raw(), block.nbytes());
    }
    messages.complete(Polling::kYields, begun);
    local_->scatter(block, out, dealer, begun);
  });
}

// From each rank to each other one: a part goes between two ranks only, so nothing is saved by collecting it on the nodes.
void TwoSteps::all_to_all(const Tensor& x, const Tensor& out, const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked call = asked(Operation::kAllToAll, x, -1);
    want_memory(call, x, false);
    want_memory(call, out, true);
    if (call.refused.ok() &&
        (x.dtype() != out.dtype() || x.numel() != out.numel() || x.numel() % job_->size() != 0))
      call.refused = {Code::kInvalid,
                      "all_to_all of " + x.to_string() + " into " + out.to_string() +
                          ": both have to have the same dtype and as many elements, which can be cut into " +
                          std::to_string(job_->size()) + " equal parts, one for each rank"};
    verify(call, begun);
    if (job_->nodes().size() == 1) return local_->all_to_all(x, out, begun);
    const Flat source = flat(x, true), target = flat(out, false);
    const std::size_t part = x.nbytes() / static_cast<std::size_t>(job_->size());
    const auto at = [part](int rank) { return static_cast<std::size_t>(rank) * part; };
    Messages messages(*job_, world_);
    for (int rank = 0; rank < job_->size(); ++rank) {
      if (rank == job_->rank()) continue;
      messages.receive(rank, target.data() + at(rank), part);
      messages.send(rank, source.data() + at(rank), part);
    }
    if (part != 0) std::memmove(target.data() + at(job_->rank()), source.data() + at(job_->rank()), part);
    messages.complete(Polling::kYields, begun);
    give_back(target, out);
  });
}

}  // namespace forklift::inline abi_0_1::mpi
