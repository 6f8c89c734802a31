// attempt(): the API without exceptions. It answers with a Result, or a Status, where a call would throw.
//
//   forklift::Result<Queue<Frame>> frames = forklift::attempt([] { return Queue<Frame>({.capacity = 8}); });
//   if (!frames) return fail(frames.status());
//   forklift::Status put = forklift::attempt([&] { frames->put(frame); });          // void: a Status
//   forklift::Result<Frame> next = forklift::attempt([&] { return frames->get(); });
//   if (next.code() == Code::kClosed) return done();
//
//   auto maybe = forklift::attempt([&] { return frames->try_get(5ms); });   // Result<std::optional<Frame>>
//
// It answers what Forklift throws: Error and its kinds (their Status), an exception of another process (RemoteError,
// ProcessExitedError: kRemote), std::out_of_range, which containers throw (kInvalid), std::bad_alloc (kOverBudget). Other
// exceptions of the program pass through it. What a call returns by reference is copied.
//
// In programs that are compiled with -fno-exceptions too: every header compiles, the throwing functions are there, and a
// failure that no attempt() is around ends the program by std::terminate. The call inside runs to its end or to the
// failure; objects that live in the lambda itself, or in other frames of the program between attempt() and Forklift's
// function, are not destroyed by a failure there, as nothing compiled so has destructors for it. So: one call of
// Forklift's in each attempt(), its arguments made outside. Forklift's own frames hold nothing then: for a queue, topic
// or pipe of structs, strings, vectors and tensors; a Value, or a struct with Fields, whose parts do not fit (kInvalid)
// leaves what it had unpacked in this process until it ends. The compiler must write unwind tables, as GCC and Clang do
// on x86-64 and AArch64 unless -fno-asynchronous-unwind-tables is given.
//
// Thread and process safety: a function of its argument. A failure costs what throwing and catching does; a
// success, two calls.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1 {

namespace detail {
Status attempted(Guarded call);
}  // namespace detail

// What `call(args...)` returns, or why it failed.
template <class Call, class... Args>
  requires std::invocable<Call, Args...>
auto attempt(Call&& call, Args&&... args) {
  using Returned = std::remove_cvref_t<std::invoke_result_t<Call, Args...>>;
  if constexpr (std::is_void_v<Returned>) {
    const auto run = [&] { std::invoke(std::forward<Call>(call), std::forward<Args>(args)...); };
    return detail::attempted(detail::Guarded(run));
  } else {
    std::optional<Returned> returned;
    const auto run = [&] {
      returned.emplace(std::invoke(std::forward<Call>(call), std::forward<Args>(args)...));
    };
    Status status = detail::attempted(detail::Guarded(run));
    if (!status.ok()) return Result<Returned>(std::move(status));
    return Result<Returned>(*std::move(returned));
  }
}

}  // namespace forklift::inline abi_0_1
