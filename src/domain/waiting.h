// Adaptive waiting: a short spin while the peer runs on another processor, then sleep in slices.
//
//   while (!try_it()) {
//     Status status = wait_for({row.event, row.spinner, row.peer_cpu}, ready, domain, deadline, hooks);
//     if (!status) return status;      // kTimeout, or the hooks' status
//   }
//
// Thread safety: yes. The caller may hold no internal lock.
#pragma once

#include <algorithm>
#include <atomic>

#include "domain/domain.h"
#include "domain/wait_records.h"
#include "os/clock.h"
#include "os/proc.h"
#include "sync/event_count.h"

namespace forklift::inline abi_0_1::domain {

// Where this thread is: what call_site_hook says, or its C++ frames, innermost first.
std::string own_call_site();
// Set by a language whose frames say more than ours.
using CallSiteHook = std::string (*)();
inline constinit std::atomic<CallSiteHook> call_site_hook{nullptr};

// Polled now and then while a call waits, with no lock held. A failed status ends the wait, which returns it;
// nothing was taken or sent then. (The Python bindings run signal handlers here.)
class WaitHooks {
 public:
  virtual ~WaitHooks() = default;
  virtual Status poll() = 0;
  // Where in the program this thread waits, innermost first, for people. Asked for once in a long wait.
  virtual std::string call_site() { return own_call_site(); }
  std::int64_t slice_ns = sync::kQuietSliceNs;  // poll() is called at least this often
};

// How long this process spins at a place before it sleeps, learnt from how its earlier waits there ended.
//
// It spins longer than usual where the last sleeps were short: a sleep and its wake-up cost two system calls
// and up to 40 us, so for an answer that takes 60 us spinning is cheaper. After a long spin in vain it takes
// many short sleeps until it spins long again.
//
// It does not spin at all where spins have not paid off lately: the peer is slow, or it does not run because
// there are more runnable threads than processors. It then tries a spin now and then, ever more rarely; a
// spin that pays off restores the usual spin at once.
//
// Two ends that both sleep may go on so on a virtual machine, although each answers at once. It seems that its host
// runs both processors on one of its own while they take turns, so the end that spins keeps the other from answering, and
// parts them when both were busy for some milliseconds. So where spins do not pay and sleeps are short, what is tried now
// and then is a spin of that length. That it ends well says nothing of shorter ones; the spin after it does.
//
// Thread safety: yes; an update that is lost between threads only delays the learning.
class SpinPolicy {
 public:
  static constexpr std::int64_t kLongestNs = 100'000;
  // What slept so long may have waited for something that a spin of kLongestNs would see: this end's wake-up is in it, and
  // the other end's, where both sleep.
  static constexpr std::int64_t kShortSleepNs = 2 * kLongestNs;
  static constexpr int kShortSleeps = 2, kShortSleepsAfterAll = 8;
  // After kVainSpins spins in vain, only one in 8, 16, ... kRarest waits spins.
  static constexpr int kVainSpins = 4, kFirstRest = 8, kRarest = 256;
  // Where sleeps are short, such a wait spins so long; the waits between two of them grow to more.
  static constexpr std::int64_t kTrialNs = 3'000'000;
  static constexpr int kRarestTrial = 1024;

  // How long to spin now; 0: not at all. `most_ns`: what a trial may last at most.
  std::int64_t spin_ns(std::int64_t usual_ns, std::int64_t most_ns = 0) noexcept {
    if (const int rest = rest_.load(std::memory_order_relaxed); rest > 0) {
      rest_.store(rest - 1, std::memory_order_relaxed);
      return 0;
    }
    if (!is_long()) return usual_ns;
    const bool rests = vain_.load(std::memory_order_relaxed) >= kVainSpins;
    if (most_ns >= kTrialNs && rests && !trial_ended_well_.load(std::memory_order_relaxed)) return kTrialNs;
    return std::max(usual_ns, kLongestNs);
  }
  bool is_long() const noexcept { return score_.load(std::memory_order_relaxed) >= kShortSleeps; }

  // A spin has ended; `paid`: the condition came true meanwhile. `trial`: spin_ns() had said kTrialNs.
  void note_spin(bool paid, bool trial = false) noexcept {
    const bool ended_well = trial && paid;
    if (trial_ended_well_.load(std::memory_order_relaxed) != ended_well)
      trial_ended_well_.store(ended_well, std::memory_order_relaxed);
    if (ended_well) return;
    if (paid) {
      vain_.store(0, std::memory_order_relaxed);
      return;
    }
    const bool was_long = is_long();
    if (was_long) score_.store(kShortSleeps - kShortSleepsAfterAll, std::memory_order_relaxed);
    const int vain = std::min(vain_.load(std::memory_order_relaxed) + 1, kVainSpins + 16);
    vain_.store(vain, std::memory_order_relaxed);
    if (vain < kVainSpins) return;
    const int rarest = was_long ? kRarestTrial : kRarest;
    rest_.store(std::min(kFirstRest << (vain - kVainSpins), rarest) - 1, std::memory_order_relaxed);
  }
  // The condition came true after a sleep of `ns`, wake-up included, that followed a spin.
  void note_sleep(std::int64_t ns) noexcept {
    const int score = score_.load(std::memory_order_relaxed);
    score_.store(ns <= kShortSleepNs ? std::min(score + 1, kShortSleeps) : std::min(score, 0),
                 std::memory_order_relaxed);
  }

 private:
  std::atomic<int> score_{0};
  std::atomic<int> vain_{0};                   // spins in vain since one paid
  std::atomic<int> rest_{0};                   // waits that do not spin
  std::atomic<bool> trial_ended_well_{false};  // the last spin was one
};

struct WaitPoint {
  sync::EventCount& event;
  sync::Word& spinner;                   // until when a thread spins here; 0 or past: none does
  const sync::Word& peer_cpu;            // processor on which the other end last ran, + 1; 0: unknown
  std::int64_t spin_ns = sync::kSpinNs;  // the longest spin where no SpinPolicy extends it
  SpinPolicy* spin_policy = nullptr;     // of this process; nullptr: it learns nothing at this place
  WaitKind kind = WaitKind::kEvent;      // for records, where the event lies in a block
};

// For a place with many peers, where the wait is for none of them in particular.
inline const sync::Word kUnknownCpu{0};

// The place where a user's lock is waited for. The processor of the holder is not recorded: that would cost
// each acquisition a cache line.
inline WaitPoint lock_place(sync::EventCount& event, sync::Word& spinner, SpinPolicy& spin_policy) noexcept {
  return {event, spinner, kUnknownCpu, sync::kSpinNs, &spin_policy};
}

// Records on which processor this end runs. Stored only when it changes, since a store takes the cache line
// away from the other end.
inline void note_cpu(sync::Word& cpu) noexcept {
  const auto here = static_cast<std::uint64_t>(os::current_cpu()) + 1;
  if (cpu.load(std::memory_order_relaxed) != here) cpu.store(here, std::memory_order_relaxed);
}

// Can the other end run while this one spins? Not if it last ran on this very processor. The processors that
// *this* process may use say nothing about its peer: each of the two may be bound to a processor of its own.
inline bool peer_runs_elsewhere(const sync::Word& peer_cpu) noexcept {
  static const bool several_cpus = os::online_cpus() > 1;
  if (!several_cpus) return false;
  return peer_cpu.load(std::memory_order_relaxed) != static_cast<std::uint64_t>(os::current_cpu()) + 1;
}

// Each place has at most one spinner: several would only take the processors from the threads that they wait
// for. The claim of a spinner that died expires.
inline bool claim_spin(sync::Word& spinner, std::int64_t longest_ns) noexcept {
  const auto now = static_cast<std::uint64_t>(os::now_ns());
  const auto longest = static_cast<std::uint64_t>(longest_ns);
  std::uint64_t until = spinner.load(std::memory_order_relaxed);
  return until < now && spinner.compare_exchange_strong(until, now + 2 * longest, std::memory_order_relaxed);
}

// Spins if this thread can become the place's spinner. Returns whether the condition came true meanwhile. `most_ns`: what
// a trial of the policy may last, for callers that note their sleeps.
template <class Ready>
bool spin_at(const WaitPoint& at, Ready&& ready, Domain& domain, std::int64_t most_ns = 0) {
  if (!peer_runs_elsewhere(at.peer_cpu)) return false;
  const std::int64_t longest_ns = at.spin_policy ? at.spin_policy->spin_ns(at.spin_ns, most_ns) : at.spin_ns;
  if (longest_ns == 0 || !claim_spin(at.spinner, longest_ns)) return false;
  const std::int64_t traced = domain.tracer().begin(trace::Category::kWaits);
  const bool came = sync::spin_for(ready, os::now_ns, longest_ns);
  at.spinner.store(0, std::memory_order_relaxed);
  if (at.spin_policy) at.spin_policy->note_spin(came, longest_ns == SpinPolicy::kTrialNs);
  if (trace::kCompiledIn && traced != 0) [[unlikely]]
    trace_wait(domain, &at.event, at.kind, WaitManner::kSpin, traced);
  return came;
}

// The same without becoming the place's spinner: for a thread that only observes and takes nothing.
template <class Ready>
bool spin_beside(WaitPoint at, Ready&& ready, Domain& domain, std::int64_t most_ns) {
  sync::Word nobody{0};
  return spin_at({at.event, nobody, at.peer_cpu, at.spin_ns, at.spin_policy, at.kind}, ready, domain,
                 most_ns);
}

// What a spin may last that must not outlast the wait.
inline std::int64_t most_spin_ns(os::Deadline deadline) noexcept {
  return deadline.left_ns(SpinPolicy::kTrialNs);
}

// How long one sleep may take before the thread checks what has happened.
inline std::int64_t slice_ns(const WaitHooks* hooks) noexcept {
  return hooks ? std::min(hooks->slice_ns, sync::slice_ns()) : sync::slice_ns();
}

// The same for a sleeper that does nothing at the end of a slice but check its condition.
inline std::int64_t look_ns(const WaitHooks* hooks) noexcept {
  return hooks && hooks->slice_ns < sync::kSliceNs ? hooks->slice_ns : sync::lengthened(slice_ns(hooks));
}

// Sleeps for one slice on a ticket, checks for deaths, and cancels the ticket. In a build with long slices
// the sleep goes on, with these checks and a poll of the hooks in between.
inline Status sleep_a_slice(sync::EventCount& event, sync::EventCount::Ticket ticket, Domain& domain,
                            os::Deadline deadline, WaitHooks* hooks) {
  const std::int64_t until = sync::kLongSlices ? os::now_ns() + sync::kLongSliceNs : 0;
  for (;;) {
    const os::FutexWait how = event.sleep(ticket, deadline.left_ns(slice_ns(hooks)));
    const bool slept_on = how == os::FutexWait::kTimedOut && !deadline.passed() && os::now_ns() < until;
    if (!slept_on) event.cancel(ticket);
    // A sleeper that goes on reaps each time, as one that checks its own condition would.
    if (slept_on) domain.try_reap();
    if (how == os::FutexWait::kTimedOut) domain.check_deaths();
    if (!slept_on) return {};
    if (hooks) {
      if (Status status = hooks->poll(); !status) return event.cancel(ticket), status;
    }
  }
}

// One sleep of at most a slice. Returns ok when the condition holds or something has happened (check again),
// kTimeout, or the hooks' status.
template <class Ready>
Status sleep_at(const WaitPoint& at, Ready&& ready, Domain& domain, os::Deadline deadline, WaitHooks* hooks) {
  const sync::EventCount::Ticket ticket = at.event.prepare();
  if (ready()) {
    at.event.cancel(ticket);
    return {};
  }
  const WaitRecord record(domain, &at.event, at.kind, deadline);
  if (Status status = sleep_a_slice(at.event, ticket, domain, deadline, hooks); !status) return status;
  if (ready()) return {};
  if (hooks) {
    if (Status status = hooks->poll(); !status) return status;
  }
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  record.goes_on(hooks);
  return {};
}

// Spins, then sleeps. The results are those of sleep_at().
template <class Ready>
Status wait_for(WaitPoint at, Ready&& ready, Domain& domain, os::Deadline deadline, WaitHooks* hooks) {
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  if (spin_at(at, ready, domain)) return {};
  return sleep_at(at, ready, domain, deadline, hooks);
}

}  // namespace forklift::inline abi_0_1::domain
