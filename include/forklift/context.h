// Context: a start method as a value. What works with spawn works with the others.
//
//   void work(int id, forklift::Queue<int>& results) { results.put(id * id); }
//   static const forklift::Registered<&work> registered_work{"work"};
//
//   auto context = fast ? forklift::forkserver_context() : forklift::spawn_context();
//   auto worker = context.process(work, 7, results).start();
//   auto other = forklift::fork_context().process([&] { results.put(1); }).start();
//
// fork        a copy of this process. Runs any callable, registered or not; arguments are what they are here
//             (so strings inside containers may hold any bytes; elsewhere they must be UTF-8, as in
//             messages). Other threads are not there, and what they were in the middle of stays so.
// spawn       this program, executed anew up to forklift::init(), then the function. Shares nothing but the
//             domain. Costs what starting the program costs.
// forkserver  as spawn, but copied from a process that has come to init() already and waits there (the
//             zygote): small, one thread, nothing of this process's in it, however large this one has grown.
//             Made when the first child asks for it, gone with this process. Its children are children of
//             this process, with standard streams as they are now; environment and working directory are
//             those of the time when the zygote was made. If the program starts threads before init(), a copy
//             would be unsound: the children are spawned instead, and stderr says so once.
//
// A function is registered by one line (forklift/spawn.h); on fork it need not be. On spawn and forkserver a
// lambda, or a function that is not registered, is an Error (kInvalid) that names that line.
//
// Thread and process safety: a Context is a value. Invariant: it means the same method for ever.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "forklift/spawn.h"

namespace forklift::inline abi_0_1 {

namespace detail {
[[noreturn]] void throw_not_registered(StartMethod method);
}  // namespace detail

class Context {
 public:
  // How its processes are started.
  constexpr explicit Context(StartMethod method) noexcept : method_(method) {}

  // Which one that is.
  constexpr StartMethod start_method() const noexcept { return method_; }

  // A process that will run function(args...). The arguments are taken now.
  template <class R, class... Params, class... Args>
  Process process(R (*function)(Params...), Args&&... args) const {
    auto arguments = detail::hold_arguments(function, std::forward<Args>(args)...);
    if (method_ != StartMethod::kFork)
      return Process::from_call(method_, detail::prepare_held(function, std::move(arguments)));
    return Process::from_entry([function, arguments = std::move(arguments)] {
      return detail::Signature<R, Params...>::call(function, *arguments);
    });
  }

  // Any other callable: on fork.
  template <detail::CallableObject Callable, class... Args>
  Process process(Callable&& callable, Args&&... args) const {
    static_assert(std::invocable<std::decay_t<Callable>&, std::decay_t<Args>&...>,
                  "forklift: this callable cannot be called with these arguments");
    if (method_ != StartMethod::kFork) detail::throw_not_registered(method_);
    std::tuple<std::decay_t<Args>...> held(std::forward<Args>(args)...);
    return Process::fork([callable = std::forward<Callable>(callable), held = std::move(held)]() mutable {
      return std::apply(callable, held);
    });
  }

  friend constexpr bool operator==(const Context&, const Context&) = default;

 private:
  StartMethod method_;
};

// The three of them: a copy of this process; a fresh one of this program; a copy of a fresh one that was made
// early (the forkserver).
constexpr Context fork_context() noexcept { return Context(StartMethod::kFork); }
constexpr Context spawn_context() noexcept { return Context(StartMethod::kSpawn); }
constexpr Context forkserver_context() noexcept { return Context(StartMethod::kForkserver); }
// By Python's name: "fork", "spawn", "forkserver". Anything else is an Error (kInvalid).
Context get_context(std::string_view method);
std::string_view name_of(StartMethod method) noexcept;

}  // namespace forklift::inline abi_0_1
