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
// Many at a time, for small messages by a tenth of the price: put_many(range) and get_many(span).
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
// message along, and inside get_many() at most those that this call has taken. A process that is killed does not close a queue.
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
// Its kin: JoinableQueue<T> (joinable_queue.h), SimpleQueue<T> (simple_queue.h, bounded in bytes),
// Queue<T, Delivery::kAtLeastOnce> (claim.h), whose messages come back when the process that took them dies.
//
// Invariants: messages come out in the order in which their puts returned; each exactly once. What was put before
// close() returned is got before Closed is thrown.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "forklift/detail/async_ref.h"
#include "forklift/detail/queue_end.h"

namespace forklift::inline abi_0_1 {

template <class T, Delivery D = Delivery::kAtMostOnce>
class Queue : public detail::QueueEnd<T, D> {
  static_assert(D == Delivery::kAtMostOnce,
                "forklift: a Queue with Delivery::kAtLeastOnce needs #include \"forklift/claim.h\"");
  using End = detail::QueueEnd<T, D>;
  using Transfer = detail::Transfer<T>;
  static constexpr std::uint64_t kType = detail::kQueueType<T, D>;

 public:
  // A new queue. Error: kOverBudget, kNoSpace, kNotAttached.
  explicit Queue(const QueueOptions& options = {}) : End(detail::make_queue(kType, options)) {}
  // No queue: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Queue(None) noexcept {}
  // What Process::program (or a Python parent) gave this program under the name. Call forklift::init first.
  static Queue inherited(std::string_view name) {
    return Queue(ChannelRef(detail::inherited_queue(name, kType)));
  }
  // A handle on the queue behind a ChannelRef, which must be a queue of T: TypeMismatch. Portable queues (of
  // Value, Tensor and what these are made of) are all of one type.
  explicit Queue(const ChannelRef& channel) : End(detail::queue_of_type(channel, kType)) {}
  template <class U>
    requires(!std::same_as<T, U>)
  explicit Queue(const Queue<U>& other) : Queue(ChannelRef(other)) {
    static_assert(detail::Transfer<U>::kType == Transfer::kType,
                  "forklift: this is a queue of another type: what is put there cannot be got as a T");
  }

  // The oldest message; waits for one. Nothing: none came before the wait was over.
  [[nodiscard]] T get() { return Transfer::get(this->channel_.get()); }
  [[nodiscard]] std::optional<T> try_get(const Wait& wait = Wait::now()) {
    return Transfer::get(this->channel_.get(), wait);
  }
  // The same, into an item that is there already: the memory of a string or vector is used again where it
  // suffices, and a large struct is nowhere else meanwhile. False: nothing came, and the item is as it was.
  void get_into(T& item) { (void)Transfer::get_into(this->channel_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_get_into(T& item, const Wait& wait = Wait::now()) {
    return Transfer::get_into(this->channel_.get(), item, wait);
  }
  // Waits for a message and then takes those that are there, as many as fit, in order. How many: 1 or more. A message
  // that has another type or is corrupt throws, with those before it in `into`.
  std::size_t get_many(std::span<T> into) {
    return detail::Batches<T>::get(this->channel_.get(), into, Wait::forever());
  }
  // 0: none came before the wait was over.
  [[nodiscard]] std::size_t try_get_many(std::span<T> into, const Wait& wait = Wait::now()) {
    return detail::Batches<T>::get(this->channel_.get(), into, wait);
  }
  // In place: a message that is read in shared memory (loan.h).
  [[nodiscard]] auto get_loaned()
    requires detail::Lendable<T>
  {
    return *detail::Loans<T>::borrow(this->channel_.get(), detail::kForever);
  }
  [[nodiscard]] auto try_get_loaned(const Wait& wait = Wait::now())
    requires detail::Lendable<T>
  {
    return detail::Loans<T>::borrow(this->channel_.get(), wait);
  }

  // Every message until the queue is closed and empty; with each(), also until a wait for one is over.
  detail::ItemIterator<Queue> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<Queue> each(const Wait& wait) { return {*this, wait}; }
  // Every message where it lies, until the queue is closed and empty, or a wait for one is over.
  auto each_loaned(const Wait& wait = Wait::forever())
    requires detail::Lendable<T>
  {
    return detail::LoanedItems<Queue>(*this, wait);
  }

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
};

}  // namespace forklift::inline abi_0_1

template <class T, forklift::Delivery D>
struct std::hash<forklift::Queue<T, D>> : forklift::detail::QueueHash {};
