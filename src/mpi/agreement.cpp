#include "mpi/agreement.h"

#include <array>
#include <csignal>
#include <string>

#include "collective/combine.h"
#include "forklift/detail/hash.h"
#include "os/proc.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

using collective::Op;

constexpr std::array kOps = {Op::kSum, Op::kProduct, Op::kMin, Op::kMax, Op::kMean, Op::kFunction};

bool has_ended(pid_t pid) {
  const char state = os::task_state(pid);
  return state == 0 || state == 'Z';
}

// Every rank's word of a call; 0: its arguments were refused.
using Word = std::uint64_t;

}  // namespace

TwoSteps::Asked TwoSteps::asked(collective::Operation operation, const Tensor& part, int root) const {
  Asked asked;
  asked.call.operation = operation;
  asked.call.dtype = part.dtype();
  asked.call.shape = part.shape();
  asked.call.root = root;
  if (root >= job_->size() || root < -1)
    asked.refused = {Code::kInvalid, "root " + std::to_string(root) + " of a group of " +
                                         std::to_string(job_->size()) + " ranks: they go from 0 to " +
                                         std::to_string(job_->size() - 1)};
  return asked;
}

void TwoSteps::want_reduction(Asked& asked, const Reduction& how) {
  asked.call.op = kOps.at(static_cast<std::size_t>(how.kind()));
  if (asked.refused.ok() && asked.call.op != Op::kFunction)
    asked.refused = collective::check_reduction(asked.call.op, asked.call.dtype);
}

void TwoSteps::want_memory(Asked& asked, const Tensor& x, bool written) {
  if (!asked.refused.ok()) return;
  if (x.storage() && x.storage()->on_device()) {
    asked.refused = {Code::kUnsupported,
                     x.to_string() + " lies on " + x.device() +
                         ": collectives are for memory of the CPU, so copy it there first"};
  } else if (written && x.readonly()) {
    asked.refused = {Code::kInvalid, "the result cannot be written to the read-only " + x.to_string()};
  } else {
    asked.refused = tensor::settle(x);
  }
}

void TwoSteps::want_parts(Asked& asked, const Tensor& whole, const Tensor& part) const {
  if (!asked.refused.ok()) return;
  const bool fits = whole.dtype() == part.dtype() && whole.numel() == part.numel() * job_->size();
  if (!fits)
    asked.refused = {Code::kInvalid, whole.to_string() + " has not one " + part.to_string() +
                                         " for each of the " + std::to_string(job_->size()) +
                                         " ranks: its dtype has to be the same, and its elements " +
                                         std::to_string(job_->size()) + " times as many"};
}

// The node's ranks compare their words in the arena, then the lanes those of the nodes.
void TwoSteps::verify(const Asked& asked, const Wait& wait) {
  const std::string text = asked.call.to_string();
  const Word own = asked.refused.ok() ? forklift::detail::hash_of(text) | 1U : 0;
  const auto over = [](std::vector<Word>& words) {
    return Tensor::wrap(Storage::borrow(words.data(), words.size() * sizeof(Word)), DType::kUInt64,
                        {static_cast<std::int64_t>(words.size())});
  };
  std::vector<Word> mine{own}, here(static_cast<std::size_t>(local_size_), own);
  if (local_size_ > 1) local_->all_gather(over(mine), over(here), wait);
  const auto agreed = [own](const std::vector<Word>& words) {
    for (const Word each : words)
      if (each != own || own == 0) return Word{0};
    return own;
  };
  mine[0] = agreed(here);
  const std::size_t nodes = job_->nodes().size();
  if (nodes > 1 && job_->local_rank() < lanes_) {
    std::vector<Word> all(nodes, mine[0]);
    Messages messages(*job_, lane_);
    for (std::size_t node = 0; node < nodes; ++node) {
      if (node == job_->node_number()) continue;
      messages.receive(static_cast<int>(node), reinterpret_cast<std::byte*>(&all[node]), sizeof(Word));
      messages.send(static_cast<int>(node), reinterpret_cast<const std::byte*>(mine.data()), sizeof(Word));
    }
    messages.complete(Polling::kSleeps, wait);
    mine[0] = mine[0] == 0 ? 0 : agreed(all);
  }
  if (lanes_ < local_size_) local_->broadcast(over(mine), 0, wait);
  throw_if_failed(asked.refused);
  if (mine[0] == 0)
    throw CollectiveMismatch({Code::kMismatch,
                              "the ranks have called different collectives, or one of them was given "
                              "arguments that cannot be used: " +
                                  described(job_->me()) + " called " + text});
}

void TwoSteps::name_the_dead(const PeerDied& error) {
  std::string dead;
  for (const int rank : job_->node().ranks) {
    const RankInfo& each = job_->ranks()[static_cast<std::size_t>(rank)];
    if (has_ended(each.pid)) dead += (dead.empty() ? "" : ", ") + described(each);
  }
  const std::string words = (dead.empty() ? "a rank on the node of " + described(job_->me()) : dead) +
                            " has ended: " + std::string(error.status().what());
  job_->doom(words);
  throw PeerDied({Code::kPeerDied, words});
}

void TwoSteps::barrier(const Wait& wait) {
  guarded(wait, [&](const Wait& begun) {
    Asked asked;
    verify(asked, begun);
  });
}

}  // namespace forklift::inline abi_0_1::mpi
