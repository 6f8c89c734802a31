// What headers do where an exception is thrown or met, without a keyword that a compiler without exceptions refuses.
//
//   std::optional<T> item;
//   if (detail::met_closed([&] { item = stream.try_get(wait); })) item.reset();
//
// The library is compiled with exceptions, and these run the call inside of it. In a program that is compiled with
// exceptions each does what try and catch in its place would do. In one that is not (-fno-exceptions) an exception of the
// library passes through the frames of headers without running destructors there: so these frames own nothing at a point
// where the library may throw (attempt.h).
//
// Thread and process safety: functions of their arguments.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::detail {

[[noreturn]] void throw_closed(const Status& status);
[[noreturn]] void throw_mismatch(const Status& status);  // a TypeMismatch
[[noreturn]] void throw_out_of_range(const std::string& what);

// Runs a function of the program inside the library.
class Guarded {
 public:
  template <class Call>
  explicit Guarded(Call& call) noexcept
      : call_(const_cast<void*>(static_cast<const void*>(std::addressof(call)))),
        run_([](void* self) { (*static_cast<Call*>(self))(); }) {}
  void operator()() const { run_(call_); }

 private:
  void* call_;
  void (*run_)(void*);
};

std::exception_ptr caught_from(Guarded call) noexcept;
bool met_closed_in(Guarded call);
Status mismatch_of(Guarded call);
Status failure_of(Guarded call);
std::optional<std::string> message_of(Guarded call);

// What the call threw; null: nothing.
template <class Call>
std::exception_ptr caught(Call&& call) noexcept {
  return caught_from(Guarded(call));
}
// Did it throw Closed? Other exceptions pass, as they do through the following ones.
template <class Call>
bool met_closed(Call&& call) {
  return met_closed_in(Guarded(call));
}
// The status of the TypeMismatch that it threw; and of the Error.
template <class Call>
Status mismatch_in(Call&& call) {
  return mismatch_of(Guarded(call));
}
template <class Call>
Status failure_in(Call&& call) {
  return failure_of(Guarded(call));
}
// The what() of the std::exception that it threw; nothing where it returned.
template <class Call>
std::optional<std::string> message_in(Call&& call) {
  return message_of(Guarded(call));
}
// Throws it. The frame that has it holds nothing of it any more.
[[noreturn]] void rethrow(std::exception_ptr& failure);
// Is this an Error of a message that can never be read?
bool unreadable(const std::exception_ptr& failure) noexcept;

}  // namespace forklift::inline abi_0_1::detail
