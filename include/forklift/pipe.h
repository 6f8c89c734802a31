// Connections: the two ends of a pipe, between threads or a process and its forked children.
//
//   auto [parent, child] = forklift::make_pipe<Request, Reply>();    // the first end sends requests
//   auto worker = forklift::Process::fork([&, child = std::move(child)]() mutable {
//     parent.close();                                                // else it keeps its own end open
//     for (Request& request : child) child.put(handle(request));     // until the other end is gone
//   }).start();
//   child.close();
//   parent.put(Request{1});
//   Reply reply = parent.get();
//
// What may be sent, and how it travels: as with Queue<T> (queue.h). make_pipe<T, void>() is one way, from the
// first end to the second. 64 KiB are in transit in each direction before put() waits; a larger message
// waits until the pipe is empty and then goes as a whole.
//
// An end is a descriptor as well: it is there for the other one as long as any process holds it, inherited by
// fork or kept over exec, and gone with SIGKILL. get() then throws Closed once everything was read; put() throws
// Error (kSystem, EPIPE).
//
// Ownership: a Connection owns its descriptor; it is moved, never copied. A forked child has its own.
// Thread safety: any number of threads may put and get; closing and moving may not run beside them.
// Process safety: any number of processes may use an end that they inherited.
// Errors: as Queue's.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "forklift/detail/items.h"
#include "forklift/detail/transfer.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {

// A pipe's end and its descriptor.
class PipeCore;
struct ClosePipe {
  void operator()(PipeCore* core) const noexcept;
};
using PipePtr = std::unique_ptr<PipeCore, ClosePipe>;
std::pair<PipePtr, PipePtr> open_pipe(bool duplex);
channel::PipeEnd* end_of(PipeCore* core) noexcept;
// Is there something to receive, or the end? False: not before the wait is over.
bool poll_pipe(PipeCore* core, Limit limit);
int pipe_descriptor(PipeCore* core);

// A concept, since Clang 14 would look for what void is as a value.
template <class T>
concept Carried = std::is_void_v<T> || Sendable<T>;

}  // namespace detail

// One end: receives `In`, sends `Out`; void for neither.
template <class In, class Out = In>
class Connection {
  static_assert(detail::Carried<In> && detail::Carried<Out>,
                "forklift: a connection carries what a Queue can carry: neither pointers nor views, and a "
                "struct with strings or containers inside by one line: template <> struct "
                "forklift::ValueTraits<T> : forklift::Fields<&T::a, &T::b> {};");
  struct Nothing {};
  using Sent = std::conditional_t<std::is_void_v<Out>, Nothing, Out>;
  using Received = std::conditional_t<std::is_void_v<In>, Nothing, In>;

 public:
  using value_type = In;

  explicit Connection(detail::PipePtr core) noexcept : core_(std::move(core)) {}

  // Waits while the pipe is full. False: the wait is over, and nothing was put.
  void put(const Sent& item)
    requires(!std::is_void_v<Out>)
  {
    detail::Transfer<Sent>::put(end_here(), item, detail::kForever);
  }
  [[nodiscard]] bool try_put(const Sent& item, const Wait& wait = Wait::now())
    requires(!std::is_void_v<Out>)
  {
    return detail::Transfer<Sent>::put(end_here(), item, wait);
  }
  // A tensor that is given away: as Queue::put(Tensor&&).
  void put(Sent&& item)
    requires std::same_as<Out, Tensor>
  {
    detail::give_tensor(end_here(), item, detail::kForever);
  }
  [[nodiscard]] bool try_put(Sent&& item, const Wait& wait = Wait::now())
    requires std::same_as<Out, Tensor>
  {
    return detail::give_tensor(end_here(), item, wait);
  }

  // The next message; waits for one. Nothing: none came before the wait was over.
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] T get() {
    return detail::Transfer<T>::get(end_here());
  }
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] std::optional<T> try_get(const Wait& wait = Wait::now()) {
    return detail::Transfer<T>::get(end_here(), wait);
  }
  // The same, into an item that is there already: as Queue::get_into. False: nothing came.
  template <class T = In>
    requires(!std::is_void_v<In>)
  void get_into(T& item) {
    (void)detail::Transfer<T>::get_into(end_here(), item, detail::kForever);
  }
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] bool try_get_into(T& item, const Wait& wait = Wait::now()) {
    return detail::Transfer<T>::get_into(end_here(), item, wait);
  }

  // Every message until the other end is gone; with each(), also until a wait for one is over.
  auto begin()
    requires(!std::is_void_v<In>)
  {
    return detail::ItemIterator<Connection>(*this, Wait::forever());
  }
  std::default_sentinel_t end() const noexcept { return {}; }
  auto each(const Wait& wait)
    requires(!std::is_void_v<In>)
  {
    return detail::Items<Connection>(*this, wait);
  }

  // Would get() answer at once, with a message or with Closed? False: not before the wait is over.
  [[nodiscard]] bool poll(const Wait& wait = Wait::now()) { return detail::poll_pipe(core_.get(), wait); }

  // For poll(2) and the like: readable while poll() is true. It carries no message; this object owns it.
  int fileno() { return detail::pipe_descriptor(core_.get()); }

  // Gives the end up in this process; using it afterwards is kClosed.
  void close() noexcept { core_.reset(); }
  bool closed() const noexcept { return core_ == nullptr; }

 private:
  friend class Waitable;
  channel::PipeEnd* end_here() const noexcept { return detail::end_of(core_.get()); }
  detail::PipePtr core_;
};

// Two connected ends: the first sends A and receives B.
template <class A, class B = A>
std::pair<Connection<B, A>, Connection<A, B>> make_pipe() {
  static_assert(!std::is_void_v<A>, "forklift: the first end sends: make_pipe<T, void>()");
  // One way it is the core's second end that writes.
  auto [first, second] = detail::open_pipe(!std::is_void_v<B>);
  return {Connection<B, A>(std::move(second)), Connection<A, B>(std::move(first))};
}

}  // namespace forklift::inline abi_0_1
