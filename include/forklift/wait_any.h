// Waiting on several things at once: queues, broadcasts, connections, events, locks, futures, processes, descriptors.
//
//   for (std::size_t index : forklift::wait_any({jobs, control, worker})) ...
//                                     // 0: jobs has a message; 2: the worker has ended
//   auto ready = forklift::try_wait_any({jobs, control, worker}, {1s, stop});   // empty: the wait is over
//
// Ready:
//   Queue, Subscription, Latest, Connection   has a message, or is closed
//   Event                                     is set, or was set since the call began, even if it is cleared again
//   Lock, RLock, Semaphore                    an acquire would succeed now: free, left by a process that died, or an
//                                             RLock that this thread holds
//   Latch                                     none is left to be counted down
//   Future                                    its task has ended, in whatever way
//   Process                                   has ended
//   descriptor                                is readable
// Nothing is taken: where others get from the same queue or want the same lock, use try_get() and try_lock().
//
// An idle wait costs no processor time beyond a rare look for deaths. Up to 127 objects in shared memory alone (queues,
// events, locks) are one system call on all of them (futex_waitv, Linux 5.16), descriptors alone one poll(). Otherwise the
// call makes a WaitSet (wait_set.h), with a change of shared memory for each object; keep one where the same objects are
// waited for again and again.
//
// Ownership: a Waitable refers to the object that it was made from, which must outlive the call.
// Thread safety: as for the objects. Process safety and fork: a forked child may wait for the objects that it
// inherited, except for a Future, which belongs to the process that made it.
// Errors: Error for what cannot be waited for (kClosed: an empty handle; kInvalid: a writing end, a Future that was used
// up; kSystem: a descriptor that is not open; kNotAttached). A Condition, a Barrier, an RWLock, a Once and a Broadcast
// are refused when the program is compiled.
// Invariant: what became ready and stays so is reported, by this call or the next.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "forklift/event.h"
#include "forklift/future.h"
#include "forklift/latch.h"
#include "forklift/lock.h"
#include "forklift/pipe.h"
#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/semaphore.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {
// The locks that can be looked at without taking part in them.
template <class T>
concept ObservedLock = std::derived_from<T, Event> || std::derived_from<T, MutexHandle> ||
                       std::derived_from<T, Semaphore> || std::derived_from<T, Latch>;
}  // namespace detail

// Something that becomes ready.
class Waitable {
 public:
  // A queue with a message; a connection with one, or at its end.
  template <class T, Delivery D>
  Waitable(const Queue<T, D>& queue) : queue_(ChannelRef(queue).get()) {}
  template <class In, class Out>
    requires(!std::is_void_v<In>)
  Waitable(const Connection<In, Out>& connection) : pipe_(connection.end_here()) {}
  // A Subscription: has a message, or is at its end. A Latest: has a value that this handle has not got yet.
  template <detail::ReaderHandle T>
  Waitable(const T& handle) : reader_(handle.reader()) {}
  Waitable(const Event& event) : lock_(event.ref()) {}
  // A Lock or RLock; a Semaphore or BoundedSemaphore.
  Waitable(const detail::MutexHandle& lock) : lock_(lock.ref()) {}
  Waitable(const Semaphore& semaphore) : lock_(semaphore.ref()) {}
  Waitable(const Latch& latch) : lock_(latch.ref()) {}
  template <class R>
  Waitable(const Future<R>& future) : descriptor_(future.fileno()) {}
  // For the compiler to say why not.
  template <class T>
    requires((detail::LockHandle<T> && !detail::ObservedLock<T>) ||
             (detail::TopicHandle<T> && !detail::ReaderHandle<T>))
  Waitable(const T&) {
    static_assert(!detail::LockHandle<T>,
                  "forklift: a Condition or Barrier is waited for alone, as an RWLock or a Once, since its "
                  "wait takes part in it; what is "
                  "waited for together with others is an Event that its notifier sets");
    static_assert(!detail::TopicHandle<T>,
                  "forklift: a Broadcast is waited for by its readers: wait for a Subscription");
  }
  Waitable(const Process& process) : descriptor_(process.sentinel()) {}
  // Any descriptor that poll() knows, when it is readable.
  static Waitable descriptor(int fd) {
    Waitable made;
    made.descriptor_ = fd;
    return made;
  }

  // Which of them it is.
  const detail::ChannelPtr& queue() const noexcept { return queue_; }
  channel::PipeEnd* pipe() const noexcept { return pipe_; }
  const detail::ReaderPtr& reader() const noexcept { return reader_; }
  const LockRef& lock() const noexcept { return lock_; }
  int descriptor() const noexcept { return descriptor_; }

 private:
  Waitable() = default;
  detail::ChannelPtr queue_;
  channel::PipeEnd* pipe_ = nullptr;
  detail::ReaderPtr reader_;
  LockRef lock_;
  int descriptor_ = -1;
};

namespace detail {
std::vector<std::size_t> wait_within(std::span<const Waitable> objects, Limit limit);
}  // namespace detail

// The indices of what is ready, in rising order; waits until something is.
inline std::vector<std::size_t> wait_any(std::span<const Waitable> objects) {
  return detail::wait_within(objects, detail::kForever);
}
inline std::vector<std::size_t> wait_any(std::initializer_list<Waitable> objects) {
  return detail::wait_within(std::span(objects.begin(), objects.size()), detail::kForever);
}
// Empty: nothing was before the wait was over.
[[nodiscard]] inline std::vector<std::size_t> try_wait_any(std::span<const Waitable> objects,
                                                           const Wait& wait = Wait::now()) {
  return detail::wait_within(objects, wait);
}
[[nodiscard]] inline std::vector<std::size_t> try_wait_any(std::initializer_list<Waitable> objects,
                                                           const Wait& wait = Wait::now()) {
  return detail::wait_within(std::span(objects.begin(), objects.size()), wait);
}

}  // namespace forklift::inline abi_0_1
