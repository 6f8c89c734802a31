// Latch between processes: a number that is counted down to zero, once, and waited for; as std::latch.
//
//   forklift::Latch loaded(4);
//   for (int i = 0; i < 4; ++i)
//     workers.push_back(forklift::Process::fork([=]() mutable { load(i); loaded.count_down(); work(i); }).start());
//   loaded.wait();                                     // all four have loaded
//   if (!loaded.try_wait({1s, stop})) ...              // wait.h
//
// A count has no owner: a process that dies before it has counted down leaves the number as it is. Where that can
// happen, wait for a time and look at the processes, or use a Barrier (barrier.h), which breaks when one of its
// parties dies.
//
// Thread and process safety: any number of threads of any number of processes. Copies: see lock_ref.h.
//
// Errors: Error with kInvalid from a count_down() by more than is left (nothing is counted then), kNotAttached,
// kNoSpace.
//
// Invariants: the number never rises. What came before a count_down() is seen behind the wait() that it ends.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

class Latch {
 public:
  // A new one, to be counted down by so much; and the one of that name.
  explicit Latch(std::uint64_t count);
  static Latch open(detail::LockName name);
  // No latch: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Latch(None) noexcept {}
  explicit operator bool() const noexcept { return latch_ != nullptr; }

  // What is left gets less; and what is left now.
  void count_down(std::uint64_t by = 1);
  std::uint64_t left() const;
  // Until none is left. False: some were when the wait was over.
  void wait() const { (void)wait_within(detail::kForever); }
  [[nodiscard]] bool try_wait(const Wait& wait = Wait::now()) const { return wait_within(wait); }
  void arrive_and_wait(std::uint64_t by = 1) {
    count_down(by);
    wait();
  }

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Latch(std::shared_ptr<locks::Latch> latch) noexcept : latch_(std::move(latch)) {}
  bool wait_within(detail::Limit limit) const;
  std::shared_ptr<locks::Latch> latch_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Latch> : forklift::detail::HandleHash {};
