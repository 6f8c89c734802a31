// Adaptive waiting: a short spin while the peer runs on another processor, then sleep in slices.
//
//   while (!try_it()) {
//     Status status = wait_for({row.event, row.spinner, row.peer_cpu}, ready, domain, deadline, hooks);
//     if (!status) return status;      // kTimeout, or what the hooks said
//   }
//
// Thread safety: yes. No internal lock may be held.
#pragma once

#include <algorithm>
#include <atomic>

#include "domain/domain.h"
#include "os/clock.h"
#include "os/proc.h"
#include "sync/event.h"

namespace forklift::domain {

// Asked now and then while a call waits, with no lock held. A failed status ends the wait with it; nothing
// was taken or sent then. (Python: run signal handlers.)
class WaitHooks {
 public:
  virtual ~WaitHooks() = default;
  virtual Status poll() = 0;
  std::int64_t slice_ns = sync::kQuietSliceNs;  // poll() is called at least this often
};

// Whether this process spins longer than usual at a place: where its last sleeps were hardly worth it. A
// sleep and its end cost two system calls and up to 40 us; an answer that takes 60 us is cheaper waited for
// awake. A long spin in vain is forgiven only after many short sleeps, so that where processes outnumber the
// processors next to nothing is spent on it.
//
// Thread safety: yes; a word lost between threads delays what is learnt.
class Patience {
 public:
  static constexpr std::int64_t kLongestNs = 100'000;
  static constexpr int kShortSleeps = 2, kShortSleepsAfterAll = 8;

  bool has() const noexcept { return score_.load(std::memory_order_relaxed) >= kShortSleeps; }
  // The answer came after so long a sleep, which followed a spin. (The sleep's end is in it, too.)
  void note_sleep(std::int64_t ns) noexcept {
    const int score = score_.load(std::memory_order_relaxed);
    score_.store(ns <= kLongestNs ? std::min(score + 1, kShortSleeps) : std::min(score, 0),
                 std::memory_order_relaxed);
  }
  void lose() noexcept { score_.store(kShortSleeps - kShortSleepsAfterAll, std::memory_order_relaxed); }

 private:
  std::atomic<int> score_{0};
};

struct WaitPoint {
  sync::Event& event;
  sync::Word& spinner;                   // until when somebody spins here; 0 or past: nobody
  const sync::Word& peer_cpu;            // processor on which the other end last ran, + 1; 0: unknown
  std::int64_t spin_ns = sync::kSpinNs;  // the longest spin, but for patience
  Patience* patience = nullptr;          // this process's, if it learns at this place
};

// For a place with many other ends, of which no one is waited for.
inline const sync::Word kUnknownCpu{0};

// Leaves word of where this end runs; stored only when it changes, since the other end's line is at stake.
inline void note_cpu(sync::Word& cpu) noexcept {
  const auto here = static_cast<std::uint64_t>(os::current_cpu()) + 1;
  if (cpu.load(std::memory_order_relaxed) != here) cpu.store(here, std::memory_order_relaxed);
}

// One spinner a place: several would only take the processors from those they wait for. A spinner that died
// is known by its time.
inline bool claim_spin(const WaitPoint& at, std::int64_t longest_ns) noexcept {
  static const bool several_cpus = os::allowed_cpus() > 1;
  if (!several_cpus) return false;
  // The peer last ran here: it cannot run while we spin.
  if (at.peer_cpu.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(os::current_cpu()) + 1)
    return false;
  const auto now = static_cast<std::uint64_t>(os::now_ns());
  const auto longest = static_cast<std::uint64_t>(longest_ns);
  std::uint64_t until = at.spinner.load(std::memory_order_relaxed);
  return until < now &&
         at.spinner.compare_exchange_strong(until, now + 2 * longest, std::memory_order_relaxed);
}

// Whether the condition came true while this thread was the place's spinner.
template <class Ready>
bool spin_at(const WaitPoint& at, Ready&& ready) {
  const bool patient = at.patience && at.patience->has();
  const std::int64_t longest_ns = patient ? std::max(at.spin_ns, Patience::kLongestNs) : at.spin_ns;
  if (!claim_spin(at, longest_ns)) return false;
  const bool came = sync::spin_for(ready, os::now_ns, longest_ns);
  at.spinner.store(0, std::memory_order_relaxed);
  if (patient && !came) at.patience->lose();
  return came;
}

// How long one sleep may take before it is looked what has happened.
inline std::int64_t slice_ns(const WaitHooks* hooks) noexcept {
  return hooks ? std::min(hooks->slice_ns, sync::slice_ns()) : sync::slice_ns();
}

// One sleep of at most a slice. Returns ok when the condition held or something has happened since (look
// again), kTimeout, or what the hooks said.
template <class Ready>
Status sleep_at(const WaitPoint& at, Ready&& ready, Domain& domain, os::Deadline deadline, WaitHooks* hooks) {
  const sync::Event::Ticket ticket = at.event.prepare();
  if (ready()) {
    at.event.cancel(ticket);
    return {};
  }
  const os::FutexWait how = at.event.wait(ticket, deadline.left_ns(slice_ns(hooks)));
  if (ready()) return {};
  if (how == os::FutexWait::kTimedOut) domain.check_deaths();
  if (hooks) {
    if (Status status = hooks->poll(); !status) return status;
  }
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  return {};
}

// Spins, then sleeps; the same answers.
template <class Ready>
Status wait_for(WaitPoint at, Ready&& ready, Domain& domain, os::Deadline deadline, WaitHooks* hooks) {
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  if (spin_at(at, ready)) return {};
  return sleep_at(at, ready, domain, deadline, hooks);
}

}  // namespace forklift::domain
