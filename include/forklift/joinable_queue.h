// JoinableQueue<T>: a Queue<T> that knows how much of what was put is done.
//
//   forklift::JoinableQueue<Job> jobs;
//   auto worker = forklift::Process::fork([&] {
//     for (;;) {
//       const Job job = jobs.get();
//       work(job);
//       jobs.task_done();                             // once for each message taken
//     }
//   });
//   worker.set_daemon(true).start();
//   for (const Job& job : all) jobs.put(job);
//   jobs.join();                                      // until each has been reported done
//   if (!jobs.try_join(std::chrono::seconds(5))) std::cerr << jobs.unfinished() << " to go";
//
// Everything else, also what T may be and how it reaches other processes: as Queue<T> (queue.h). A process
// that is killed between get() and task_done() leaves its message unfinished, as in Python: who joins with a
// limited wait can tell.
//
// Thread and process safety: as Queue<T>. The count is the queue's, not a process's.
// Errors: Error with kInvalid from a task_done() too many; kClosed.
// Invariant: unfinished() is what was put less what was reported done, never negative.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "forklift/queue.h"

namespace forklift::inline abi_0_1 {

template <class T>
class JoinableQueue : public Queue<T> {
 public:
  // As Queue's.
  explicit JoinableQueue(const QueueOptions& options = {}) : Queue<T>(options) {}
  template <std::same_as<std::nullptr_t> None>
  explicit JoinableQueue(None none) noexcept : Queue<T>(none) {}
  explicit JoinableQueue(const ChannelRef& channel) : Queue<T>(channel) {}
  template <class U>
  explicit JoinableQueue(const Queue<U>& other) : Queue<T>(other) {}
  static JoinableQueue inherited(std::string_view name) {
    return JoinableQueue(ChannelRef(Queue<T>::inherited(name)));
  }

  // What was got is done; Error (kInvalid) if nothing is unfinished. And how much that is.
  void task_done() { detail::task_done(channel()); }
  std::size_t unfinished() const { return detail::unfinished_tasks(channel()); }

  // Until everything that was put is done. False: the wait is over before.
  void join() const { (void)detail::join_tasks(channel(), detail::kForever); }
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) const {
    return detail::join_tasks(channel(), wait);
  }

 private:
  channel::Channel* channel() const { return ChannelRef(*this).get().get(); }
};

}  // namespace forklift::inline abi_0_1

template <class T>
struct std::hash<forklift::JoinableQueue<T>> : forklift::detail::QueueHash {};
