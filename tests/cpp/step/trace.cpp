#include "step/trace.h"

#include <unordered_map>

namespace forklift::test {

Tracee::Stop Trace::record(Tracee& tracee) {
  Tracee::Stop stop = Tracee::Stop::kTrap;
  while (stop == Tracee::Stop::kTrap || stop == Tracee::Stop::kFork) {
    if (stop == Tracee::Stop::kTrap) counters_.push_back(tracee.program_counter());
    stop = tracee.step();
  }
  find_anchors();
  return stop;
}

void Trace::find_anchors() {
  // Passing a breakpoint costs about as much as six steps.
  constexpr std::int64_t kPass = 6;
  std::unordered_map<std::uint64_t, unsigned> passes;
  Anchor best;
  std::int64_t best_cost = 0;
  for (std::size_t k = 0; k < counters_.size(); ++k) {
    const unsigned before = passes[counters_[k]]++;
    const std::int64_t cost = kPass * before - static_cast<std::int64_t>(k);
    if (k == 0 || cost <= best_cost) {
      best = {k, before};
      best_cost = cost;
    }
    anchors_.push_back(best);
  }
}

// Repeated string instructions trap after each repetition; one moment is like the other.
bool Trace::is_inside_repetition(std::size_t k) const {
  constexpr std::size_t kAlike = 4;
  if (k < kAlike || k + kAlike >= counters_.size()) return false;
  for (std::size_t i = k - kAlike; i <= k + kAlike; ++i) {
    if (counters_[i] != counters_[k]) return false;
  }
  return k % 509 != 0;
}

std::vector<std::size_t> Trace::points() const {
  std::vector<std::size_t> points;
  for (std::size_t k = 0; k < counters_.size(); ++k) {
    if (!is_inside_repetition(k)) points.push_back(k);
  }
  return points;
}

Tracee::Stop Trace::replay(Tracee& tracee, std::size_t k) const {
  const Anchor anchor = anchors_[k];
  Tracee::Stop stop = tracee.run_to(counters_[anchor.at], anchor.passes);
  for (std::size_t at = anchor.at; at < k && (stop == Tracee::Stop::kTrap || stop == Tracee::Stop::kFork);) {
    stop = tracee.step();
    if (stop == Tracee::Stop::kTrap) ++at;
  }
  return stop;
}

}  // namespace forklift::test
