// Broadcast<T>: what is put reaches every reader, in one order, from one copy in shared memory.
//
//   forklift::Broadcast<Frame> frames({.capacity = 16, .when_slow = forklift::WhenSlow::kDropOldest});
//   auto viewer = forklift::Process::fork([&] {
//     auto stream = frames.subscribe();                 // what is put from here on
//     for (Frame& frame : stream) show(frame);          // until frames.close()
//   }).start();
//   frames.wait_for_readers(1);
//   while (running) frames.put(grab());
//   frames.close();
//
// T: any type that is Sendable (sendable.h). A Tensor arrives as the same memory at every reader, so what one
// writes the others see; a reader keeps it for as long as it likes, whatever is put meanwhile.
//
// A reader that is `capacity` messages behind when the next one comes: misses the oldest, and missed() counts
// them (kDropOldest); makes put() wait (kWait); is disconnected (kDisconnect). A message goes, and its memory
// with it, when all readers have read it, but for the `keep` newest, which are for subscribe(From::kOldest).
//
// Any number of writers; a Broadcast is a handle, a copy another one on the same. It reaches other processes
// by fork (a captured handle works in the child) or as an argument of a spawned function. A Subscription
// belongs to the process that made it. Whoever is killed, the others go on: a put is done or never was, and a
// dead reader is forgotten, by a writer that waits for it within 0.2 s.
//
// Thread safety: as Queue; a Subscription's calls may run in several threads, each message reaches one of
// them.
//
// Errors: Error with kInvalid (a capacity of 0), kNoSpace (more than 128 readers), kOverBudget, kClosed (a
// subscription that has unsubscribed), kRefused (a subscription in a forked child), kCorrupt and TypeMismatch
// (that message is gone for this reader); Closed (a put after close(), a get behind the last message);
// Disconnected.
//
// Invariant: a reader gets the messages in order, each once, and every one that missed() does not count.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "forklift/detail/async_ref.h"
#include "forklift/detail/items.h"
#include "forklift/detail/topic_ref.h"
#include "forklift/detail/transfer.h"
#include "forklift/error.h"
#include "forklift/loan.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// What happens to a reader that is `capacity` messages behind: it misses the oldest, put() waits for it, or it is
// disconnected.
enum class WhenSlow : std::uint8_t {
  kDropOldest,
  kWait,
  kDisconnect
};

// How much a Broadcast holds, and what becomes of a reader that is too slow.
struct BroadcastOptions {
  std::uint32_t capacity = 64;                 // messages
  WhenSlow when_slow = WhenSlow::kDropOldest;  // what happens to a reader that is `capacity` behind
  std::uint32_t keep = 0;                      // of the newest, for readers to come
};

// Where a subscription begins: with the next message, or with the oldest that is there.
enum class From : std::uint8_t {
  kNext,
  kOldest
};

// The reader was too slow and was disconnected.
class Disconnected : public Error {
 public:
  using Error::Error;
};

namespace detail {

// What a topic must be to carry a T.
struct TopicKind {
  std::uint64_t type;  // 0: portable
  bool latest;
  std::uint32_t slot_bytes;
};
template <class T>
constexpr TopicKind topic_kind(bool latest) {
  // A value of a known size has its place; the others what most need.
  constexpr std::size_t kHeader = 32;
  constexpr std::size_t kUsual = 2048;
  std::size_t slot = kUsual;
  if constexpr (Bytewise<T>) slot = sizeof(T) > 8192 - kHeader ? 128 : (sizeof(T) + kHeader + 63) / 64 * 64;
  return {Transfer<T>::kType, latest, static_cast<std::uint32_t>(slot < 128 ? 128 : slot)};
}

TopicPtr make_topic(const TopicKind& kind, const BroadcastOptions& options);
// The same topic, if it is of this kind: TypeMismatch otherwise.
TopicPtr topic_of_kind(const TopicRef& topic, const TopicKind& kind);
// For all: a null topic is a closed handle, a null reader one that was moved from.
ReaderPtr subscribe(const TopicPtr& topic, bool from_oldest);
bool wait_for_readers(const TopicPtr& topic, std::uint32_t count, Limit limit);
std::uint32_t count_readers(const TopicPtr& topic);
void close_topic(const TopicPtr& topic);
bool topic_closed(const TopicPtr& topic);
std::uint64_t topic_number(const TopicPtr& topic);
void unsubscribe(const ReaderPtr& reader) noexcept;
std::uint64_t missed_by(const ReaderPtr& reader);
std::uint64_t behind_of(const ReaderPtr& reader);
int reader_descriptor(const ReaderPtr& reader);

}  // namespace detail

// A reader of a Broadcast, with a position of its own; it belongs to the process that made it.
template <class T>
class Subscription {
  using Transfer = detail::Transfer<T>;

 public:
  using value_type = T;

  explicit Subscription(detail::ReaderPtr reader) noexcept : reader_(std::move(reader)) {}
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&&) noexcept = default;

  // The next message; waits for one. Nothing: none came before the wait was over. Both throw Closed behind the last
  // one.
  [[nodiscard]] T get() { return Transfer::get(reader_.get()); }
  [[nodiscard]] std::optional<T> try_get(const Wait& wait = Wait::now()) {
    return Transfer::get(reader_.get(), wait);
  }
  // The same, into an item that is there already: as Queue::get_into.
  void get_into(T& item) { (void)Transfer::get_into(reader_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_get_into(T& item, const Wait& wait = Wait::now()) {
    return Transfer::get_into(reader_.get(), item, wait);
  }
  // The next message where it lies, which all readers see there (loan.h).
  [[nodiscard]] auto get_loaned()
    requires detail::Lendable<T>
  {
    return *detail::Loans<T>::borrow(reader_.get(), detail::kForever);
  }
  [[nodiscard]] auto try_get_loaned(const Wait& wait = Wait::now())
    requires detail::Lendable<T>
  {
    return detail::Loans<T>::borrow(reader_.get(), wait);
  }
  // Every message until the Broadcast is closed; with each(), also until a wait for one is over.
  detail::ItemIterator<Subscription> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<Subscription> each(const Wait& wait) { return {*this, wait}; }
  // Every message where it lies, until the Broadcast is closed, or a wait for one is over.
  auto each_loaned(const Wait& wait = Wait::forever())
    requires detail::Lendable<T>
  {
    return detail::LoanedItems<Subscription>(*this, wait);
  }

  // Messages that were dropped before this reader had read them.
  std::uint64_t missed() const { return detail::missed_by(reader_); }
  // Messages that are there for it just now.
  std::uint64_t behind() const { return detail::behind_of(reader_); }
  // Gives the place up, as destruction does; get() is kClosed from then on.
  void unsubscribe() noexcept { detail::unsubscribe(reader_); }

  // A descriptor for an event loop: readable while there is a message for this reader, or an end; as Queue::fileno().
  int fileno() const { return detail::reader_descriptor(reader_); }
  // As coroutines, on an event loop: co_await subscription.async_get(loop). Include forklift/async.h.
  auto async_get(Reactor& loop) {
    return detail::Async<Subscription>::template get<false>(*this, loop, Wait::forever());
  }
  auto async_try_get(Reactor& loop, const Wait& wait) {
    return detail::Async<Subscription>::template get<true>(*this, loop, wait);
  }
  const detail::ReaderPtr& reader() const noexcept { return reader_; }  // for wait_any()

 private:
  detail::ReaderPtr reader_;
};

template <class T>
class Broadcast {
  static_assert(detail::CanBeSent<T>::value);
  using Transfer = detail::Transfer<T>;
  static constexpr detail::TopicKind kKind = detail::topic_kind<T>(false);

 public:
  using value_type = T;

  // A new one; or a handle on the one behind a TopicRef, which must be of T: TypeMismatch.
  explicit Broadcast(const BroadcastOptions& options = {}) : topic_(detail::make_topic(kKind, options)) {}
  // None: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Broadcast(None) noexcept {}
  explicit Broadcast(const TopicRef& topic) : topic_(detail::topic_of_kind(topic, kKind)) {}

  // Waits only for readers that are too slow, and only with kWait. False: one still was when the wait was over, and
  // nothing was put.
  void put(const T& item) { Transfer::put(topic_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_put(const T& item, const Wait& wait = Wait::now()) {
    return Transfer::put(topic_.get(), item, wait);
  }

  // A message that is written in shared memory (loan.h). With a count where T is a vector or a Framed.
  [[nodiscard]] auto loan()
    requires(detail::Lendable<T> && !detail::LendableSlice<T>)
  {
    return detail::Loans<T>::lend(topic_, 1);
  }
  [[nodiscard]] auto loan(std::size_t count)
    requires detail::LendableSlice<T>
  {
    return detail::Loans<T>::lend(topic_, count);
  }

  // A reader of its own, from the next message on, or from the oldest one that is there.
  Subscription<T> subscribe(From from = From::kNext) {
    return Subscription<T>(detail::subscribe(topic_, from == From::kOldest));
  }
  std::uint32_t readers() const { return detail::count_readers(topic_); }  // in all processes
  // Until there are `count` readers. False: fewer when the wait was over.
  void wait_for_readers(std::uint32_t count) {
    (void)detail::wait_for_readers(topic_, count, detail::kForever);
  }
  [[nodiscard]] bool try_wait_for_readers(std::uint32_t count, const Wait& wait = Wait::now()) {
    return detail::wait_for_readers(topic_, count, wait);
  }

  // Nothing more will be put, by anybody: readers get what is there, then Closed.
  void close() { detail::close_topic(topic_); }
  bool closed() const { return detail::topic_closed(topic_); }

  // Gives this handle up; using it afterwards is Error (kClosed).
  void reset() noexcept { topic_.reset(); }
  explicit operator bool() const noexcept { return topic_ != nullptr; }
  TopicRef ref() const { return TopicRef(topic_); }
  // Two handles on the same one, or two on none.
  friend bool operator==(const Broadcast& a, const Broadcast& b) noexcept { return a.ref() == b.ref(); }

 private:
  detail::TopicPtr topic_;
};

}  // namespace forklift::inline abi_0_1

template <class T>
struct std::hash<forklift::Broadcast<T>> : forklift::detail::TopicHash {};
