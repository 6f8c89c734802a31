// Barrier between processes: holds threads until as many as were asked for have come; then all go on.
//
//   forklift::Barrier step(4);
//   auto worker = forklift::Process::fork([=]() mutable {
//     while (work()) step.arrive_and_wait();
//   });
//
// Each of arrive_and_wait() answers who came when: 0, 1, ..., parties - 1. The last one runs the completion
// function, if its own handle has one, before the others go on. (A function does not travel to a spawned
// child.)
//
// The barrier breaks, for all inside and all to come, when one of them waits longer than it said, when a
// completion function throws, by abort(), and when a process is killed inside; reset() mends it.
//
// Copies, thread and process safety: as Lock (lock.h, lock_ref.h).
// Errors: BrokenBarrier; Error with kInvalid for a barrier of no parties, kNoSpace, kStalled, kNotAttached.
// Invariant: nobody leaves a round before all have come to it.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// Thrown at a barrier that was aborted or reset, whose time was over, or of which a party died.
class BrokenBarrier : public Error {
 public:
  using Error::Error;
};

class Barrier {
 public:
  // `completion` runs in the last one to arrive, before the others go on.
  explicit Barrier(std::uint32_t parties, std::function<void()> completion = {});
  static Barrier open(detail::LockName name);
  // No barrier: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Barrier(None) noexcept {}
  explicit operator bool() const noexcept { return barrier_ != nullptr; }

  // Which of the parties this was, in the order of arrival, from 0. Waits for the others.
  std::uint32_t arrive_and_wait() { return *pass(detail::kForever); }
  // Nothing: the others had not come before the wait was over, which breaks the barrier.
  [[nodiscard]] std::optional<std::uint32_t> try_arrive_and_wait(const Wait& wait) { return pass(wait); }
  void abort();
  void reset();
  bool broken() const;
  std::uint32_t parties() const;
  std::uint32_t waiting() const;

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  explicit Barrier(std::shared_ptr<locks::Barrier> barrier) noexcept : barrier_(std::move(barrier)) {}
  std::optional<std::uint32_t> pass(detail::Limit limit);
  std::shared_ptr<locks::Barrier> barrier_;
  std::function<void()> completion_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Barrier> : forklift::detail::HandleHash {};
