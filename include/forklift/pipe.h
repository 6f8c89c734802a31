// Connections: the two ends of a pipe, between threads or a process and its forked children.
//
//   auto [parent, child] = forklift::make_pipe<Request, Reply>();    // the first end sends requests
//   auto worker = forklift::Process::fork([&, child = std::move(child)]() mutable {
//     parent.close();                                                // else it keeps its own end open
//     while (auto request = child.recv()) child.send(handle(*request));
//   }).start();
//   child.close();
//   parent.send(Request{1});
//   Reply reply = *parent.recv();
//
// What may be sent, and how it travels: as with Queue<T> (queue.h). make_pipe<T, void>() is one way, from the
// first end to the second. 64 KiB are in transit in each direction before send() waits; a larger message
// waits until the pipe is empty and then goes as a whole.
//
// An end is a descriptor as well: it is there for the other one as long as any process holds it, inherited by
// fork or kept over exec, and gone with SIGKILL. recv() then answers nothing: the end of the pipe. send()
// throws Error (kSystem, EPIPE).
//
// Ownership: a Connection owns its descriptor; it is moved, never copied. A forked child has its own.
// Thread safety: any number of threads may send and receive; closing and moving may not run beside them.
// Process safety: any number of processes may use an end that they inherited.
// Errors: as Queue's, by Error; time-outs and the end are no errors.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "forklift/queue.h"

namespace forklift {

namespace detail {

// A pipe's end and its descriptor.
class PipeCore;
struct ClosePipe {
  void operator()(PipeCore* core) const noexcept;
};
using PipePtr = std::unique_ptr<PipeCore, ClosePipe>;
std::pair<PipePtr, PipePtr> open_pipe(bool duplex);
channel::PipeEnd* end_of(PipeCore* core) noexcept;
// Throws the status if it is no time-out: is there something to receive, or the end?
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
  explicit Connection(detail::PipePtr core) noexcept : core_(std::move(core)) {}

  // Waits while the pipe is full.
  void send(const Sent& item)
    requires(!std::is_void_v<Out>)
  {
    detail::Transfer<Sent>::put(end(), item, detail::kForever);
  }
  // False: the time is over, nothing was sent.
  template <class Rep, class Period>
    requires(!std::is_void_v<Out>)
  [[nodiscard]] bool send_for(const Sent& item, std::chrono::duration<Rep, Period> time) {
    return detail::Transfer<Sent>::put(end(), item, detail::nanoseconds(time));
  }
  // False: a stop was requested (or the time is over), nothing was sent.
  [[nodiscard]] bool send(const Sent& item, const std::stop_token& stop)
    requires(!std::is_void_v<Out>)
  {
    return detail::Transfer<Sent>::put(end(), item, stop);
  }
  template <class Rep, class Period>
    requires(!std::is_void_v<Out>)
  [[nodiscard]] bool send_for(const Sent& item, std::chrono::duration<Rep, Period> time,
                              const std::stop_token& stop) {
    return detail::Transfer<Sent>::put(end(), item, {detail::nanoseconds(time), stop});
  }

  // A tensor that is given away: as Queue::put(Tensor&&).
  void send(Sent&& item)
    requires std::same_as<Out, Tensor>
  {
    detail::give_tensor(end(), item, detail::kForever);
  }
  [[nodiscard]] bool send(Sent&& item, const std::stop_token& stop)
    requires std::same_as<Out, Tensor>
  {
    return detail::give_tensor(end(), item, stop);
  }
  template <class Rep, class Period>
    requires std::same_as<Out, Tensor>
  [[nodiscard]] bool send_for(Sent&& item, std::chrono::duration<Rep, Period> time,
                              const std::stop_token& stop = {}) {
    return detail::give_tensor(end(), item, {detail::nanoseconds(time), stop});
  }

  // Nothing: the end of the pipe.
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] std::optional<T> recv() {
    return detail::Transfer<T>::get(end(), detail::kForever);
  }
  // Nothing: the time is over, or the end (which poll() tells at once).
  template <class Rep, class Period, class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] std::optional<T> recv_for(std::chrono::duration<Rep, Period> time) {
    return detail::Transfer<T>::get(end(), detail::nanoseconds(time));
  }
  // Nothing: a stop was requested, the time is over, or the end.
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] std::optional<T> recv(const std::stop_token& stop) {
    return detail::Transfer<T>::get(end(), stop);
  }
  template <class Rep, class Period, class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] std::optional<T> recv_for(std::chrono::duration<Rep, Period> time,
                                          const std::stop_token& stop) {
    return detail::Transfer<T>::get(end(), {detail::nanoseconds(time), stop});
  }

  // The same, into an item that is there already: as Queue::get_into. False: the end, and the item is as it
  // was.
  template <class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] bool recv_into(T& item, const std::stop_token& stop = {}) {
    return detail::Transfer<T>::get_into(end(), item, stop);
  }
  template <class Rep, class Period, class T = In>
    requires(!std::is_void_v<In>)
  [[nodiscard]] bool recv_into_for(T& item, std::chrono::duration<Rep, Period> time,
                                   const std::stop_token& stop = {}) {
    return detail::Transfer<T>::get_into(end(), item, {detail::nanoseconds(time), stop});
  }

  // Would recv() answer at once, with a message or with the end?
  template <class Rep, class Period>
  bool poll(std::chrono::duration<Rep, Period> time) {
    return detail::poll_pipe(core_.get(), detail::nanoseconds(time));
  }
  bool poll() { return detail::poll_pipe(core_.get(), 0); }
  // False also when a stop was requested.
  template <class Rep, class Period>
  bool poll(std::chrono::duration<Rep, Period> time, const std::stop_token& stop) {
    return detail::poll_pipe(core_.get(), {detail::nanoseconds(time), stop});
  }

  // For poll(2) and the like: readable while poll() is true. It carries no message; this object owns it.
  int fileno() { return detail::pipe_descriptor(core_.get()); }

  // Gives the end up in this process; using it afterwards is kClosed.
  void close() noexcept { core_.reset(); }
  bool closed() const noexcept { return core_ == nullptr; }

 private:
  friend class Waitable;
  channel::PipeEnd* end() const noexcept { return detail::end_of(core_.get()); }
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

}  // namespace forklift
