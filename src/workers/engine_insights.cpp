// A pool's insights (insights.h): what the engine itself notes, and what it reports.
#include <algorithm>

#include "os/clock.h"
#include "workers/engine.h"

namespace forklift::inline abi_0_1::workers {

void Engine::note_start(std::size_t worker_slot) const noexcept {
  if (InsightsRow* const row = table_.insights(worker_slot))
    Insights(*row).begin_worker(static_cast<std::uint64_t>(os::now_ns()));
}

// Called after the worker's death; its last phase then ends. `with_task`: it died with a task, which may have
// been its slowest.
void Engine::note_end(std::size_t worker_slot, bool with_task) const {
  InsightsRow* const row = table_.insights(worker_slot);
  if (row == nullptr) return;
  Insights insights(*row);
  const pid_t pid = places_[worker_slot].pid;
  const bool working = with_task && insights.phase() == Phase::kWorking;
  insights.end_worker(working ? "a task during which worker " + std::to_string(pid) + " ended" : "",
                      static_cast<std::uint64_t>(pid));
}

Result<PoolInsights> Engine::insights() const {
  if (!options_.insights) return {Code::kInvalid, "a pool without insights"};
  PoolInsights found{
      .elapsed_ns = static_cast<std::uint64_t>(os::now_ns() - made_ns_), .workers = {}, .slowest = {}};
  for (std::size_t worker_slot = 0; worker_slot < table_.worker_slots(); ++worker_slot) {
    const InsightsRow* const row = table_.insights(worker_slot);
    if (row == nullptr) return {Code::kCorrupt, "the table of a pool"};
    found.workers.push_back(figures_of(*row));
    append_slow_tasks(*row, found.slowest);
  }
  std::stable_sort(found.slowest.begin(), found.slowest.end(),
                   [](const SlowTask& a, const SlowTask& b) { return a.ns > b.ns; });
  if (found.slowest.size() > kSlowTasks) found.slowest.resize(kSlowTasks);
  return found;
}

}  // namespace forklift::inline abi_0_1::workers
