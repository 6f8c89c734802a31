// Waiting on several things at once: queues, broadcasts, connections, processes, descriptors.
//
//   for (std::size_t index : forklift::wait_any({jobs, control, worker})) ...
//                                     // 0: jobs has a message; 2: the worker has ended
//   auto ready = forklift::try_wait_any({jobs, control, worker}, {1s, stop});   // empty: the wait is over
//
// Ready: a queue, Subscription, Latest or connection that has a message (or is closed), a process that has ended, a
// descriptor that is readable. Nothing is taken: where others get from the same queue, use try_get().
//
// An idle wait costs no processor time beyond a rare look for deaths. Queues alone are one system call on all
// of them (futex_waitv; on kernels before 5.16 a look every two milliseconds); queues together with
// connections, processes or descriptors cost a thread for the time of the call.
//
// Ownership: a Waitable refers to the object that it was made from, which must outlive the call.
// Thread and process safety: as for the objects.
// Errors: Error for what cannot be waited for (an empty handle, a writing end, a descriptor that is not open).
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "forklift/pipe.h"
#include "forklift/process.h"
#include "forklift/queue.h"
#include "forklift/wait.h"

namespace forklift {

// Something that becomes ready: a queue, a connection, a reader, a process, a descriptor.
class Waitable {
 public:
  // A queue with a message; a connection with one, or at its end.
  template <class T>
  Waitable(const Queue<T>& queue) : queue_(ChannelRef(queue).get()) {}
  template <class In, class Out>
    requires(!std::is_void_v<In>)
  Waitable(const Connection<In, Out>& connection) : pipe_(connection.end_here()) {}
  // A Subscription: has a message, or is at its end. A Latest: has a value that this handle has not got yet.
  template <detail::ReaderHandle T>
  Waitable(const T& handle) : reader_(handle.reader()) {}
  // For the compiler to say why not.
  template <class T>
    requires(detail::LockHandle<T> || (detail::TopicHandle<T> && !detail::ReaderHandle<T>))
  Waitable(const T&) {
    static_assert(!detail::LockHandle<T>,
                  "forklift: a lock or event is waited for alone (event.try_wait(time)); what is waited for "
                  "together with others is a queue");
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
  int descriptor() const noexcept { return descriptor_; }

 private:
  Waitable() = default;
  detail::ChannelPtr queue_;
  channel::PipeEnd* pipe_ = nullptr;
  detail::ReaderPtr reader_;
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

}  // namespace forklift
