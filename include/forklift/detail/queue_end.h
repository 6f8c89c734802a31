// What every kind of queue has: putting, closing, counting, and being a handle. Included by queue.h and claim.h, whose
// classes add what takes messages.
//
//   template <class T>
//   class Queue<T, Delivery::kAtLeastOnce> : public detail::QueueEnd<T, Delivery::kAtLeastOnce> { ... };
//
// Ownership, thread and process safety, fork, errors, invariants: as queue.h says for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/batch_transfer.h"
#include "forklift/detail/channel_ref.h"
#include "forklift/detail/items.h"
#include "forklift/detail/transfer.h"
#include "forklift/error.h"
#include "forklift/loan.h"
#include "forklift/sendable.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// How often a message of a queue reaches a getter.
enum class Delivery : std::uint8_t {
  kAtMostOnce,   // a message is gone once it was got, also if the process that got it dies
  kAtLeastOnce,  // a message stays until it was acknowledged (claim.h)
};

// What bounds a queue: put() waits where it is full.
struct QueueOptions {
  std::uint32_t capacity = 0;  // messages; 0: as many as the memory budget allows
  // Of messages and their tensors, in transit; 0: likewise. A longer message waits until the queue is empty.
  std::uint64_t bytes = 0;
  std::string_view label = {};  // for people: messages name the queue so (label.h)
};

namespace detail {

// What a queue holds and how it delivers, as its channel records it: the type's number, which is 0 for portable values,
// without the low bits; bit 1 where it delivers at least once.
inline constexpr std::uint64_t kRedeliveringQueue = 2;
template <class T, Delivery D>
inline constexpr std::uint64_t kQueueType =
    (Transfer<T>::kType & ~std::uint64_t{0xffff}) | (D == Delivery::kAtLeastOnce ? kRedeliveringQueue : 0);

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
// For JoinableQueue, and for queues whose messages are acknowledged.
void task_done(channel::Channel* channel);
std::size_t unfinished_tasks(const channel::Channel* channel);
bool join_tasks(channel::Channel* channel, Limit limit);

template <class T, Delivery D>
class QueueEnd {
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T>,
                "forklift: a Queue holds values: Queue<Frame>");
  static_assert(CanBeSent<std::remove_cvref_t<T>>::value);

 public:
  using value_type = T;
  static constexpr Delivery kDelivery = D;

  // Waits while the queue is full. False: the wait is over, and nothing was put.
  void put(const T& item) { Transfer<T>::put(channel_.get(), item, kForever); }
  [[nodiscard]] bool try_put(const T& item, const Wait& wait = Wait::now()) {
    return Transfer<T>::put(channel_.get(), item, wait);
  }
  // A span into a queue of vectors, a string_view into one of strings: no vector or string is made.
  template <ViewOf<T> View>
  void put(const View& items) {
    Transfer<T>::put_view(channel_.get(), items, kForever);
  }
  template <ViewOf<T> View>
  [[nodiscard]] bool try_put(const View& items, const Wait& wait = Wait::now()) {
    return Transfer<T>::put_view(channel_.get(), items, wait);
  }
  // A tensor that is given away: where it is the only one on its memory, the sender's right goes along with the
  // message, and the sender may end at once. The tensor is empty afterwards, if it was put.
  void put(T&& item)
    requires std::same_as<T, Tensor>
  {
    give_tensor(channel_.get(), item, kForever);
  }
  [[nodiscard]] bool try_put(T&& item, const Wait& wait = Wait::now())
    requires std::same_as<T, Tensor>
  {
    return give_tensor(channel_.get(), item, wait);
  }
  // Every item of a range, in order: numbers and structs of bytes, strings and vectors in few steps, many at a time, any
  // others one by one. An input range is read as it is put. What was put before a failure stays.
  template <RangeOf<T> Items>
  void put_many(Items&& items) {
    (void)Batches<T>::put(channel_.get(), items, Wait::forever(), Partly::kThrows);
  }
  // How many were put, the first ones: all, unless the wait was over. After a failure that is no zero either: the next
  // put throws what it was. With Wait::forever() put_many() that counts.
  template <RangeOf<T> Items>
  [[nodiscard]] std::size_t try_put_many(Items&& items, const Wait& wait = Wait::now()) {
    return Batches<T>::put(channel_.get(), items, wait, Partly::kCounts);
  }
  // In place: a message that is written in shared memory (loan.h). With a count where T is a vector or a Framed.
  [[nodiscard]] auto loan()
    requires(Lendable<T> && !LendableSlice<T>)
  {
    return Loans<T>::lend(channel_, 1);
  }
  [[nodiscard]] auto loan(std::size_t count)
    requires LendableSlice<T>
  {
    return Loans<T>::lend(channel_, count);
  }

  // Nothing more will be put, by anybody, through whatever handle: who gets receives what is there, then Closed.
  // Those who wait are woken. Closing it again changes nothing.
  void close() { close_queue(channel_.get()); }
  bool closed() const { return queue_closed(channel_.get()); }

  // A moment's truth: others may put and get meanwhile.
  std::size_t size() const { return queue_size(channel_.get()); }
  bool empty() const { return size() == 0; }
  bool full() const { return queue_full(channel_.get()); }
  std::size_t capacity() const { return queue_capacity(channel_.get()); }  // 0: unbounded

  // A descriptor for poll(), epoll or an event loop: readable while there is a message, or the queue is closed. It may be
  // readable for nothing after another process was faster, or died, so take with try_get(). Made by the first call
  // (Error, kSystem, kNoSpace); it belongs to the handle and its copies in this process, so take it out of the loop
  // before the last of them goes, and do not read from it.
  int fileno() const { return queue_descriptor(channel_.get()); }
  // As fileno(), for putting: after a try_put() that found no room, readable once something was taken.
  int room_fileno() const { return queue_room_descriptor(channel_.get()); }

  // Gives this handle up, as shared_ptr's reset; others keep the queue. Using it afterwards is Error (kClosed).
  void reset() noexcept { channel_.reset(); }
  explicit operator bool() const noexcept { return channel_ != nullptr; }

  // Two handles on the same queue, or two on none.
  friend bool operator==(const QueueEnd& a, const QueueEnd& b) noexcept { return a.ref() == b.ref(); }

  // As an argument of Process::spawn and Process::program.
  operator ChannelRef() const noexcept { return ChannelRef(channel_); }

 protected:
  explicit QueueEnd(ChannelPtr channel) noexcept : channel_(std::move(channel)) {}
  QueueEnd() noexcept = default;
  ChannelPtr channel_;

 private:
  friend struct QueueHash;
  ChannelRef ref() const noexcept { return ChannelRef(channel_); }
};

struct QueueHash {
  template <class T, Delivery D>
  std::size_t operator()(const QueueEnd<T, D>& queue) const noexcept {
    return queue.ref().hash();
  }
};

}  // namespace detail
}  // namespace forklift::inline abi_0_1
