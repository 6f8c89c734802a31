// Latest<T>: the newest value wins. Writers never wait, readers get the newest there is.
//
//   forklift::Latest<forklift::Tensor> weights;
//   auto actor = forklift::Process::fork([&] {
//     for (;;) act(weights.peek().value());             // the newest, whatever it is
//   }).start();
//   weights.put(trained);                               // the actors' old tensor stays theirs meanwhile
//
//   Pose pose = poses.get();                            // newer than the last that this handle got
//
// T: any type that is Sendable. A Tensor arrives as the same memory at every reader, so publish a new one
// instead of writing to one that was published.
//
// Nothing is ever torn, whoever is killed: a put is done or never was, and the value before it stays until
// then. A killed reader's hold on a value is given back.
//
// A Latest is a handle: a copy is another one on the same. It reaches other processes by fork or as an
// argument of a spawned function. Each handle remembers which version it has seen; a copy, or one in a forked
// child, has seen none.
//
// Thread safety: put() may run in any number of threads; get() in several gives each version to one of them;
// assigning and closing may not run beside anything. In a forked child the first get() or peek() may not run
// beside another one.
//
// Errors: Error with kOverBudget, kCorrupt and TypeMismatch (that version cannot be had); Closed.
//
// Invariants: versions count from 1 and never go back; what get() returns is newer than what it returned
// before.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "forklift/broadcast.h"

namespace forklift::inline abi_0_1 {

namespace detail {
ReaderPtr look_at(const TopicPtr& topic);
// Is it of this process? A forked child needs its own.
bool looks_here(const ReaderPtr& reader) noexcept;
std::uint64_t seen_by(const ReaderPtr& reader);
inline constexpr BroadcastOptions kLatestOptions{.capacity = 4, .keep = 1};
}  // namespace detail

template <class T>
class Latest {
  static_assert(detail::CanBeSent<T>::value);
  using Transfer = detail::Transfer<T>;
  static constexpr detail::TopicKind kKind = detail::topic_kind<T>(true);

 public:
  using value_type = T;

  Latest() : Latest(TopicRef(detail::make_topic(kKind, detail::kLatestOptions))) {}
  // None: a handle that costs nothing, to be assigned later. Its members throw Error (kClosed).
  template <std::same_as<std::nullptr_t> None>
  explicit Latest(None) noexcept {}
  // A handle on the one behind a TopicRef, which must be of T: TypeMismatch.
  explicit Latest(const TopicRef& topic)
      : topic_(detail::topic_of_kind(topic, kKind)), reader_(detail::look_at(topic_)) {}
  Latest(const Latest& other)
      : topic_(other.topic_), reader_(topic_ ? detail::look_at(topic_) : detail::ReaderPtr()) {}
  Latest& operator=(const Latest& other) {
    *this = Latest(other);
    return *this;
  }
  Latest(Latest&&) noexcept = default;
  Latest& operator=(Latest&&) noexcept = default;
  ~Latest() = default;

  // Makes the value the newest. Never waits.
  void put(const T& item) { Transfer::put(topic_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_put(const T& item, const Wait& wait = Wait::now()) {
    return Transfer::put(topic_.get(), item, wait);
  }
  // A tensor that is given away: as Queue::put(Tensor&&).
  void put(T&& item)
    requires std::same_as<T, Tensor>
  {
    detail::give_tensor(topic_.get(), item, detail::kForever);
  }

  // The newest value, when it is newer than what this handle got last; waits for one. Nothing: none came before the
  // wait was over.
  [[nodiscard]] T get() { return Transfer::get(here()); }
  [[nodiscard]] std::optional<T> try_get(const Wait& wait = Wait::now()) {
    return Transfer::get(here(), wait);
  }
  // The same, into an item that is there already: as Queue::get_into.
  void get_into(T& item) { (void)Transfer::get_into(here(), item, detail::kForever); }
  [[nodiscard]] bool try_get_into(T& item, const Wait& wait = Wait::now()) {
    return Transfer::get_into(here(), item, wait);
  }
  // In place: a value that is written in shared memory, and one that is read there (loan.h).
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
  [[nodiscard]] auto get_loaned()
    requires detail::Lendable<T>
  {
    return *detail::Loans<T>::borrow(here(), detail::kForever);
  }
  [[nodiscard]] auto try_get_loaned(const Wait& wait = Wait::now())
    requires detail::Lendable<T>
  {
    return detail::Loans<T>::borrow(here(), wait);
  }
  // Every value that this handle has not got yet, the newest each time, until the Latest is closed; with each(), also
  // until a wait for one is over.
  detail::ItemIterator<Latest> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<Latest> each(const Wait& wait) { return {*this, wait}; }
  // As each(), in place.
  auto each_loaned(const Wait& wait = Wait::forever())
    requires detail::Lendable<T>
  {
    return detail::LoanedItems<Latest>(*this, wait);
  }
  // The newest value, seen or not; nothing: none was put yet.
  std::optional<T> peek() { return Transfer::get(detail::Endpoint(here(), detail::Endpoint::kPeek), 0); }

  std::uint64_t version() const { return detail::topic_number(topic_); }  // of the newest; 0: none yet
  std::uint64_t seen() const { return detail::seen_by(reader_); }         // of what get() returned last

  // Nothing more will be put, by anybody: who gets receives the newest value if it has not got it yet, then Closed.
  void close() { detail::close_topic(topic_); }
  bool closed() const { return detail::topic_closed(topic_); }

  // A descriptor for an event loop: readable while there is a value that this handle has not got yet, or the Latest is
  // closed; as Queue::fileno().
  int fileno() {
    (void)here();
    return detail::reader_descriptor(reader_);
  }

  // As coroutines, on an event loop: co_await latest.async_get(loop). Include forklift/async.h.
  auto async_get(Reactor& loop) {
    return detail::Async<Latest>::template get<false>(*this, loop, Wait::forever());
  }
  auto async_try_get(Reactor& loop, const Wait& wait) {
    return detail::Async<Latest>::template get<true>(*this, loop, wait);
  }

  // Gives this handle up; using it afterwards is Error (kClosed).
  void reset() noexcept {
    reader_.reset();
    topic_.reset();
  }
  explicit operator bool() const noexcept { return topic_ != nullptr; }
  TopicRef ref() const { return TopicRef(topic_); }
  // Two handles on the same one, or two on none.
  friend bool operator==(const Latest& a, const Latest& b) noexcept { return a.ref() == b.ref(); }
  const detail::ReaderPtr& reader() const noexcept { return reader_; }  // for wait_any()

 private:
  topic::Reader* here() {
    if (topic_ && !detail::looks_here(reader_)) reader_ = detail::look_at(topic_);
    return reader_.get();
  }

  detail::TopicPtr topic_;
  detail::ReaderPtr reader_;
};

}  // namespace forklift::inline abi_0_1

template <class T>
struct std::hash<forklift::Latest<T>> : forklift::detail::TopicHash {};
