// Queue<T>: an ordered queue between any number of threads of any number of processes.
//
//   forklift::Queue<Frame> frames({.capacity = 8});     // put() waits while it is full
//   auto camera = forklift::Process::fork([&] {
//     for (int i = 0; i < 100; ++i) frames.put(grab());
//     frames.close();                                   // nothing more will come
//   }).start();
//   for (Frame& frame : frames) show(frame);            // until it is closed and empty
//
//   Frame frame = frames.get();                         // or one by one: as long as it takes
//   if (auto next = frames.try_get(5ms)) show(*next);   // or no longer than that (wait.h)
//
// T: any type that is Sendable (sendable.h): structs of numbers, strings, vectors of these, Tensor, Value, and what
// Value knows. A Tensor in the arena (Tensor::empty) travels as a handle: both ends then see the same elements; any
// other is copied once. Queue<Value> and Queue<Tensor> can have a Python end.
//
// A Queue is a handle: a copy is another handle on the same queue. It reaches other processes by fork (a captured
// handle works in the child), as an argument of Process::spawn, or by name (Process::program ->
// Queue<T>::inherited). The queue goes when its last handle in the last process is gone, and what is in it, too.
// Messages that hold queues do not exist.
//
// What was put and not taken survives the death of any process; a process that is killed inside get() takes that one
// message along. A process that is killed does not close a queue.
//
// Thread safety: puts and gets through one handle may run in any number of threads; assigning to, moving from and
// resetting a handle may not run beside them. Process safety: the whole point.
//
// Errors: put and get throw Error: kOverBudget or kNoSpace (nothing was put), kCorrupt and TypeMismatch (that
// message is gone, the queue goes on), kStalled; Closed from a put into a closed queue, and from a get when it is
// empty, too.
//
// Large structs and arrays need not be copied: loan() and get_loaned() (loan.h).
//
// In an event loop (epoll, Asio, libuv): fileno() is readable while there is a message or the end; take with try_get().
//
// Its kin: JoinableQueue<T> (joinable_queue.h), SimpleQueue<T> (simple_queue.h, bounded in bytes).
//
// Invariants: messages come out in the order in which their puts returned; each exactly once. What was put before
// close() returned is got before Closed is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/async_ref.h"
#include "forklift/detail/channel_ref.h"
#include "forklift/detail/items.h"
#include "forklift/detail/transfer.h"
#include "forklift/error.h"
#include "forklift/loan.h"
#include "forklift/sendable.h"
#include "forklift/wait.h"

namespace forklift {

// What bounds a queue: put() waits where it is full.
struct QueueOptions {
  std::uint32_t capacity = 0;  // messages; 0: as many as the memory budget allows
  // Of messages and their tensors, in transit; 0: likewise. A longer message waits until the queue is empty.
  std::uint64_t bytes = 0;
};

namespace detail {

// A portable queue has type 0.
ChannelPtr make_queue(std::uint64_t type, const QueueOptions& options);
ChannelPtr inherited_queue(std::string_view name, std::uint64_t type);
// These throw TypeMismatch. Of an empty handle: null.
void check_queue_type(const channel::Channel& channel, std::string_view name, std::uint64_t type);
ChannelPtr queue_of_type(const ChannelRef& channel, std::uint64_t type);

// These throw Error (kClosed) for an empty handle.
std::size_t queue_size(const channel::Channel* channel);
std::size_t queue_capacity(const channel::Channel* channel);
bool queue_full(const channel::Channel* channel);
int queue_descriptor(channel::Channel* channel);
int queue_room_descriptor(channel::Channel* channel);
void close_queue(channel::Channel* channel);
bool queue_closed(const channel::Channel* channel);
// For JoinableQueue.
void task_done(channel::Channel* channel);
std::size_t unfinished_tasks(const channel::Channel* channel);
bool join_tasks(channel::Channel* channel, Limit limit);

}  // namespace detail

template <class T>
class Queue {
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T>,
                "forklift: a Queue holds values: Queue<Frame>");
  static_assert(detail::CanBeSent<std::remove_cvref_t<T>>::value);
  using Transfer = detail::Transfer<T>;

 public:
  using value_type = T;

  // A new queue. Error: kOverBudget, kNoSpace, kNotAttached.
  explicit Queue(const QueueOptions& options = {}) : channel_(detail::make_queue(Transfer::kType, options)) {}
  // What Process::program (or a Python parent) gave this program under the name. Call forklift::init first.
  static Queue inherited(std::string_view name) {
    return Queue(ChannelRef(detail::inherited_queue(name, Transfer::kType)));
  }
  // A handle on the queue behind a ChannelRef, which must be a queue of T: TypeMismatch. Portable queues (of
  // Value, Tensor and what these are made of) are all of one type.
  explicit Queue(const ChannelRef& channel) : channel_(detail::queue_of_type(channel, Transfer::kType)) {}
  template <class U>
    requires(!std::same_as<T, U>)
  explicit Queue(const Queue<U>& other) : Queue(ChannelRef(other)) {
    static_assert(detail::Transfer<U>::kType == Transfer::kType,
                  "forklift: this is a queue of another type: what is put there cannot be got as a T");
  }

  // Waits while the queue is full. False: the wait is over, and nothing was put.
  void put(const T& item) { Transfer::put(channel_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_put(const T& item, const Wait& wait = Wait::now()) {
    return Transfer::put(channel_.get(), item, wait);
  }
  // A span into a queue of vectors, a string_view into one of strings: no vector or string is made.
  template <detail::ViewOf<T> View>
  void put(const View& items) {
    Transfer::put_view(channel_.get(), items, detail::kForever);
  }
  template <detail::ViewOf<T> View>
  [[nodiscard]] bool try_put(const View& items, const Wait& wait = Wait::now()) {
    return Transfer::put_view(channel_.get(), items, wait);
  }
  // A tensor that is given away: where it is the only one on its memory, the sender's right goes along with the
  // message, and the sender may end at once. The tensor is empty afterwards, if it was put.
  void put(T&& item)
    requires std::same_as<T, Tensor>
  {
    detail::give_tensor(channel_.get(), item, detail::kForever);
  }
  [[nodiscard]] bool try_put(T&& item, const Wait& wait = Wait::now())
    requires std::same_as<T, Tensor>
  {
    return detail::give_tensor(channel_.get(), item, wait);
  }

  // The oldest message; waits for one. Nothing: none came before the wait was over.
  [[nodiscard]] T get() { return Transfer::get(channel_.get()); }
  [[nodiscard]] std::optional<T> try_get(const Wait& wait = Wait::now()) {
    return Transfer::get(channel_.get(), wait);
  }
  // The same, into an item that is there already: the memory of a string or vector is used again where it
  // suffices, and a large struct is nowhere else meanwhile. False: nothing came, and the item is as it was.
  void get_into(T& item) { (void)Transfer::get_into(channel_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_get_into(T& item, const Wait& wait = Wait::now()) {
    return Transfer::get_into(channel_.get(), item, wait);
  }

  // In place: a message that is written in shared memory, and one that is read there (loan.h). With a count where T is
  // a vector or a Framed.
  [[nodiscard]] auto loan()
    requires(detail::Lendable<T> && !detail::LendableSlice<T>)
  {
    return detail::Loans<T>::lend(channel_, 1);
  }
  [[nodiscard]] auto loan(std::size_t count)
    requires detail::LendableSlice<T>
  {
    return detail::Loans<T>::lend(channel_, count);
  }
  [[nodiscard]] auto get_loaned()
    requires detail::Lendable<T>
  {
    return *detail::Loans<T>::borrow(channel_.get(), detail::kForever);
  }
  [[nodiscard]] auto try_get_loaned(const Wait& wait = Wait::now())
    requires detail::Lendable<T>
  {
    return detail::Loans<T>::borrow(channel_.get(), wait);
  }

  // Every message until the queue is closed and empty; with each(), also until a wait for one is over.
  detail::ItemIterator<Queue> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<Queue> each(const Wait& wait) { return {*this, wait}; }

  // Nothing more will be put, by anybody, through whatever handle: who gets receives what is there, then Closed.
  // Those who wait are woken. Closing it again changes nothing.
  void close() { detail::close_queue(channel_.get()); }
  bool closed() const { return detail::queue_closed(channel_.get()); }

  // A moment's truth: others may put and get meanwhile.
  std::size_t size() const { return detail::queue_size(channel_.get()); }
  bool empty() const { return size() == 0; }
  bool full() const { return detail::queue_full(channel_.get()); }
  std::size_t capacity() const { return detail::queue_capacity(channel_.get()); }  // 0: unbounded

  // A descriptor for poll(), epoll or an event loop: readable while there is a message, or the queue is closed. It may be
  // readable for nothing after another process was faster, or died, so take with try_get(). Made by the first call
  // (Error, kSystem, kNoSpace); it belongs to the handle and its copies in this process, so take it out of the loop
  // before the last of them goes, and do not read from it.
  int fileno() const { return detail::queue_descriptor(channel_.get()); }
  // As fileno(), for putting: after a try_put() that found no room, readable once something was taken.
  int room_fileno() const { return detail::queue_room_descriptor(channel_.get()); }

  // As coroutines, on an event loop: co_await queue.async_get(loop). Include forklift/async.h.
  auto async_get(Reactor& loop) {
    return detail::Async<Queue>::template get<false>(*this, loop, Wait::forever());
  }
  auto async_try_get(Reactor& loop, const Wait& wait) {
    return detail::Async<Queue>::template get<true>(*this, loop, wait);
  }
  auto async_put(Reactor& loop, T item) {
    return detail::Async<Queue>::template put<false>(*this, loop, std::move(item), Wait::forever());
  }
  auto async_try_put(Reactor& loop, T item, const Wait& wait) {
    return detail::Async<Queue>::template put<true>(*this, loop, std::move(item), wait);
  }

  // Gives this handle up, as shared_ptr's reset; others keep the queue. Using it afterwards is Error (kClosed).
  void reset() noexcept { channel_.reset(); }
  explicit operator bool() const noexcept { return channel_ != nullptr; }

  // As an argument of Process::spawn and Process::program.
  operator ChannelRef() const noexcept { return ChannelRef(channel_); }

 private:
  detail::ChannelPtr channel_;
};

}  // namespace forklift
