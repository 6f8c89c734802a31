// spawn(function, n, arguments...): n processes that run function(rank, arguments...), as
// torch.multiprocessing.spawn does. If one fails, all stop.
//
//   void train(int rank, forklift::Tensor weights, forklift::Queue<double> losses) { ... }
//   static const forklift::Registered<&train> registered_train{"train"};
//
//   forklift::spawn(train, 4, weights, losses);          // until all have ended; throws if one failed
//
//   auto group = forklift::spawn({.context = forklift::forkserver_context(), .join = false}, train, 4,
//                                weights, losses);
//   while (!group.try_join(1s)) report(losses);          // forklift/process_context.h
//
// The error says which rank it was, its pid, and what happened: ProcessRaisedError, ProcessExitedError
// (forklift/remote_error.h). The other ranks get SIGTERM at once, and SIGKILL after a grace. This process has
// to be in join() for that: nobody else watches.
//
// The ranks are a group: forklift::Group::world() in each of them has the collectives (forklift/collectives.h), and
// this_process() knows the rank and how many there are.
//
// Each rank gets its own copy of the arguments; queues, locks and tensors are the same for all. Any callable
// will do on fork_context().
//
// Thread and process safety: as Process. Invariant: if a rank cannot be started, none runs on.
#pragma once

#include <chrono>
#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/context.h"
#include "forklift/process_context.h"

namespace forklift::inline abi_0_1 {

// How a group is started, and ends.
struct SpawnOptions {
  Context context = spawn_context();  // fork, spawn or forkserver
  bool join = true;                   // wait for the end of all
  bool daemon = false;                // the processes end with this one, however it ends
  // between SIGTERM and SIGKILL, when one has failed
  std::chrono::nanoseconds grace = ProcessContext::kGrace;
};

namespace detail {
void check_group_size(int count);
}  // namespace detail

// Starts nprocs processes that run function(rank, args...). Throws what ProcessContext::join() does.
template <class Function, class... Args>
ProcessContext spawn(const SpawnOptions& options, Function&& function, int nprocs, const Args&... args) {
  detail::check_group_size(nprocs);
  std::vector<Process> members;
  for (int rank = 0; rank < nprocs; ++rank) {
    members.push_back(options.context.process(function, rank, args...));
    members.back().set_daemon(options.daemon);
  }
  detail::make_ranks(members);
  ProcessContext group = ProcessContext::start(std::move(members), options.grace);
  if (options.join) group.join();
  return group;
}

// The same, registered, in fresh processes: until all have ended.
template <class R, class... Params, class... Args>
void spawn(R (*function)(Params...), int nprocs, const Args&... args) {
  spawn(SpawnOptions{}, function, nprocs, args...);
}
template <detail::CallableObject Callable, class... Args>
  requires(!std::same_as<std::remove_cvref_t<Callable>, SpawnOptions>)
void spawn(Callable&&, int, const Args&...) {
  static_assert(std::is_function_v<Callable>,
                "forklift: spawn() runs registered functions (forklift::Registered) in fresh processes; any "
                "callable runs with {.context = forklift::fork_context()} in front of it");
}

}  // namespace forklift::inline abi_0_1
