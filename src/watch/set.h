// A wait set: one thread's wait for any of up to 4,096 events, at a price that does not grow with what is silent.
//
//   Result<std::unique_ptr<Set>> set = Set::make(watches);
//   Result<std::uint32_t> member = (*set)->add(channel.items());      // is marked at first
//   for (;;) {
//     (*set)->take_marks([&](std::uint32_t member) { ... is its condition true? ... });
//     if (Status status = (*set)->wait(deadline, hooks); !status) ...   // until a member is marked
//   }
//
// A mark says that the member's event was notified; the condition is the caller's to look at, after take_marks(). A
// set is a descriptor, too, on demand: descriptor() is readable when something was marked since arm().
//
// Ownership: the set belongs to the process that made it. In a forked child every call says kNotAttached, and
// destruction leaves the parent's set alone. The events must outlive their members.
// Thread safety: add(), remove(), wait() and descriptor() are for one thread at a time; the rest is for any.
#pragma once

#include <memory>
#include <vector>

#include "domain/waiting.h"
#include "watch/watches.h"

namespace forklift::inline abi_0_1::watch {

class Set {
 public:
  // kNoSpace, kStalled, kNotAttached.
  static Result<std::unique_ptr<Set>> make(Watches& watches);
  ~Set();
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

  // Is this the process that made it?
  bool mine() const noexcept { return watches_.domain().attached() && watches_.domain().self() == owner_; }
  std::uint32_t number() const noexcept { return row_; }

  // The member's number. kNoSpace, kStalled, kInvalid (an event of another domain), kNotAttached.
  Result<std::uint32_t> add(sync::EventCount& event);
  void remove(std::uint32_t member) noexcept;
  std::size_t size() const noexcept { return members_ - free_.size(); }

  // Marks a member anew: its condition was true when it was last looked at.
  void mark_again(std::uint32_t member) noexcept { watches_.mark(row_, member); }
  bool any_marked() const noexcept { return row().summary.load(std::memory_order_acquire) != 0; }
  // Calls `visit(member)` for each marked member, whose mark is gone then. `all`: also for marks whose maker was killed
  // before the set was told.
  template <class Visit>
  void take_marks(Visit&& visit, bool all = false) {
    std::uint64_t words = row().summary.exchange(0, std::memory_order_seq_cst);
    if (all) words = ~std::uint64_t{0};
    for (; words != 0; words &= words - 1) {
      const auto word = static_cast<std::uint32_t>(std::countr_zero(words));
      if (all && row().marks[word].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t marks = row().marks[word].exchange(0, std::memory_order_seq_cst);
      sync::full_fence();  // before the conditions are looked at
      for (; marks != 0; marks &= marks - 1)
        visit(word * 64 + static_cast<std::uint32_t>(std::countr_zero(marks)));
    }
  }

  // Until a member is marked, for one slice at most, or wake(). kTimeout, what the hooks say, kNotAttached.
  Status wait(os::Deadline deadline, domain::WaitHooks* hooks);
  // The short spin that wait() begins with. Is a member marked?
  bool spin();
  // Ends a wait() that is under way in another thread, or else the next one.
  void wake() noexcept {
    woken_.store(true, std::memory_order_seq_cst);
    row().event.notify(1);
  }

  // Made by the first call; close-on-exec. kSystem, kNotAttached.
  Result<int> descriptor();
  // From here on the descriptor is readable once a member is marked, and until it is armed again. False: one is marked
  // already, and nothing was armed.
  bool arm() noexcept;

 private:
  Set(Watches& watches, std::uint32_t row) noexcept
      : watches_(watches), owner_(watches.domain().self()), row_(row) {}
  SetRow& row() const noexcept { return watches_.set(row_); }
  domain::WaitPoint place() noexcept {
    return {row().event, row().spinner, domain::kUnknownCpu, sync::kSpinNs, &spin_policy_};
  }

  Watches& watches_;
  domain::SlotRef owner_;
  std::uint32_t row_;
  std::vector<std::uint32_t> watch_of_;  // by member
  std::vector<std::uint32_t> free_;      // numbers of former members
  std::size_t members_ = 0;              // numbers that were ever given
  domain::SpinPolicy spin_policy_;
  std::atomic<bool> woken_{false};
  os::Fd socket_;
};

}  // namespace forklift::inline abi_0_1::watch
