// SharedCounter: a number that processes add to together, without a lock, and wait for.
//
//   forklift::SharedCounter done;                        // 0
//   for (auto& part : parts)
//     workers.push_back(forklift::Process::fork([=]() mutable { work(part); done.add(); }).start());
//   done.wait_for(parts.size());                         // until it is at least that
//   if (!done.try_wait_for(100, {1s, stop})) ...         // wait.h
//
// A handle on memory of the arena, as SharedValue (shared_value.h), and travels like one.
//
// What a death leaves: an addition is one instruction; it happened or it did not. What a process had added stays.
//
// Thread and process safety: all functions any time, but assigning to a handle beside its use.
// Errors: the constructor throws Error (kOverBudget, kNoSpace, kNotAttached); a handle that was moved from kClosed.
// Invariant: no addition is lost. Beyond 2^63 - 1 it wraps, as std::atomic does.
#pragma once

#include <cstdint>

#include "forklift/shared_value.h"

namespace forklift::inline abi_0_1 {

class SharedCounter {
 public:
  // A new one.
  explicit SharedCounter(std::int64_t begins_with = 0) : number_(begins_with) {}

  // What it was before.
  std::int64_t add(std::int64_t by = 1) {
    const std::int64_t before = number_.atomic().fetch_add(by, std::memory_order_acq_rel);
    number_.notify_all();
    return before;
  }
  std::int64_t subtract(std::int64_t by = 1) {
    const std::int64_t before = number_.atomic().fetch_sub(by, std::memory_order_acq_rel);
    number_.notify_all();
    return before;
  }
  std::int64_t value() const { return number_.atomic().load(std::memory_order_acquire); }
  void reset(std::int64_t to = 0) {
    number_.atomic().store(to, std::memory_order_release);
    number_.notify_all();
  }

  // Until it is at least `least`. False: it was less when the wait was over.
  void wait_for(std::int64_t least) const { (void)try_wait_for(least, Wait::forever()); }
  [[nodiscard]] bool try_wait_for(std::int64_t least, const Wait& wait = Wait::now()) const {
    const Wait begun = wait.begun();
    for (;;) {
      const std::int64_t now = value();
      if (now >= least) return true;
      if (!number_.try_wait(now, begun) && value() < least) return false;
    }
  }

 private:
  friend struct ValueTraits<SharedCounter>;
  explicit SharedCounter(SharedValue<std::int64_t> number) : number_(std::move(number)) {}
  SharedValue<std::int64_t> number_;
};

template <>
struct ValueTraits<SharedCounter> {
  static Value to(const SharedCounter& counter) { return Value(counter.number_); }
  static SharedCounter from(const Value& value) {
    return SharedCounter(ValueTraits<SharedValue<std::int64_t>>::from(value));
  }
};

}  // namespace forklift::inline abi_0_1
