// Once: something that one thread of one process does, once, while the others wait until it is done; as
// std::call_once.
//
//   auto domain = forklift::Domain::meet("camera");
//   auto set_up = domain.open_or_create<forklift::Once>("set up");
//   set_up.call([] { calibrate(); });                  // in one of all programs; behind it, it is done
//   if (auto ran = set_up.try_call(calibrate, 5s)) ... // nothing: somebody still does it
//
// A function that throws has not done it: the exception leaves call(), and the next caller begins anew. The same
// where the process that runs it ends before it is done, however it ends: the function must stand being begun again.
//
// Thread and process safety: any number of threads of any number of processes. Copies: see lock_ref.h.
//
// Errors: Error with kInvalid from a call within the function itself, kNotAttached, kNoSpace.
//
// Invariants: at most one function runs at a time, and none once one has returned. What the function did is seen by
// all that return from call().
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "forklift/detail/lock_ref.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

class Once {
 public:
  Once();
  static Once open(detail::LockName name);
  // No once: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Once(None) noexcept {}
  explicit operator bool() const noexcept { return once_ != nullptr; }

  // Runs the function unless it was done; waits while another thread runs its own. True: it ran here.
  template <class Function>
  bool call(Function&& function) {
    return *call_within(std::forward<Function>(function), detail::kForever);
  }
  // Nothing: another thread was still at it when the wait was over.
  template <class Function>
  [[nodiscard]] std::optional<bool> try_call(Function&& function, const Wait& wait = Wait::now()) {
    return call_within(std::forward<Function>(function), wait);
  }
  bool done() const;

  // To send it, publish it, open it again.
  LockRef ref() const;

 private:
  // Marks it as not done where the function throws.
  class Turn {
   public:
    explicit Turn(locks::Once& once) noexcept : once_(once) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { end(false); }
    void end(bool done) noexcept;

   private:
    locks::Once& once_;
    bool ended_ = false;
  };

  template <class Function>
  std::optional<bool> call_within(Function&& function, detail::Limit limit) {
    bool mine = false;
    if (!begin(limit, mine)) return std::nullopt;
    if (!mine) return false;
    Turn turn(*once_);
    std::forward<Function>(function)();
    turn.end(true);
    return true;
  }
  explicit Once(std::shared_ptr<locks::Once> once) noexcept : once_(std::move(once)) {}
  bool begin(detail::Limit limit, bool& mine);
  std::shared_ptr<locks::Once> once_;
};

}  // namespace forklift::inline abi_0_1

template <>
struct std::hash<forklift::Once> : forklift::detail::HandleHash {};
