// Queue<T>: an ordered queue between any number of threads of any number of processes.
//
//   forklift::Queue<Frame> frames({.capacity = 8});     // a full queue makes put() wait
//   auto camera = forklift::Process::fork([&] { while (running) frames.put(grab()); });
//   camera.start();
//   Frame frame = frames.get();
//   if (auto next = frames.get_for(std::chrono::milliseconds(5))) use(*next);
//
// T: any type that is Sendable (sendable.h): structs of numbers, strings, vectors of these, Tensor, Value,
// and what Value knows. A Tensor in the arena (Tensor::empty) travels as a handle: both ends then see the
// same elements; any other is copied once. Queue<Value> and Queue<Tensor> can have a Python end.
//
// A Queue is a handle: a copy is another handle on the same queue. It reaches other processes by fork (a
// captured handle works in the child), as an argument of Process::spawn, or by name (Process::program ->
// Queue<T>::inherited). The queue goes when its last handle in the last process is gone, and what is in it,
// too. Messages that hold queues do not exist.
//
// What was put and not taken survives the death of any process; a process that is killed inside get() takes
// that one message along.
//
// Thread safety: puts and gets through one handle may run in any number of threads; assigning to, moving from
// and closing a handle may not run beside them. Process safety: the whole point.
//
// Errors: put and get throw Error: kOverBudget or kNoSpace (nothing was put), kCorrupt and TypeMismatch (that
// message is gone, the queue goes on), kStalled, kClosed. Waiting is by the caller's choice: put/get wait for
// ever or until a std::stop_token says stop, try_put/try_get not at all, put_for/get_for as long as said;
// time-outs and stops are no errors.
//
// Its kin: JoinableQueue<T> (joinable_queue.h), SimpleQueue<T> (simple_queue.h, bounded in bytes).
//
// Invariants: messages come out in the order in which their puts returned; each exactly once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/endpoint.h"
#include "forklift/detail/timeout.h"
#include "forklift/detail/topic_ref.h"
#include "forklift/error.h"
#include "forklift/sendable.h"

namespace forklift {

// What bounds a queue: put() waits where it is full.
struct QueueOptions {
  std::uint32_t capacity = 0;  // messages; 0: as many as the memory budget allows
  // Of messages and their tensors, in transit; 0: likewise. A longer message waits until the queue is empty.
  std::uint64_t bytes = 0;
};

namespace detail {

using ChannelPtr = std::shared_ptr<channel::Channel>;

// A portable queue has type 0.
ChannelPtr make_queue(std::uint64_t type, const QueueOptions& options);
ChannelPtr inherited_queue(std::string_view name, std::uint64_t type);
// These throw TypeMismatch. Of a closed queue: null.
void check_queue_type(const channel::Channel& channel, std::string_view name, std::uint64_t type);
ChannelPtr queue_of_type(const ChannelRef& channel, std::uint64_t type);

// A null channel is a closed queue: kClosed. False: the time is over, a stop was requested, or a pipe at its
// end.
bool put_bytes(Endpoint endpoint, std::uint64_t type, std::span<const std::byte> bytes, Limit limit);
bool put_value(Endpoint endpoint, const Value& value, Limit limit);
bool put_tensor(Endpoint endpoint, const Tensor& tensor, Limit limit);
// The tensor is empty when it was put.
bool give_tensor(Endpoint endpoint, Tensor& tensor, Limit limit);
// Exactly `out.size()` bytes.
bool get_bytes(Endpoint endpoint, std::uint64_t type, std::span<std::byte> out, Limit limit);
// `sink(into, bytes)` may throw: the message is gone then.
using Sink = void (*)(void* into, std::span<const std::byte> bytes);
bool get_sequence(Endpoint endpoint, std::uint64_t type, Sink sink, void* into, Limit limit);
std::optional<Value> get_value(Endpoint endpoint, Limit limit);
std::optional<Tensor> get_tensor(Endpoint endpoint, Limit limit);
Tensor take_tensor(Endpoint endpoint);  // of a queue, however long it takes

std::size_t queue_size(const channel::Channel* channel);
std::size_t queue_capacity(const channel::Channel* channel);
bool queue_full(const channel::Channel* channel);
// For JoinableQueue.
void task_done(channel::Channel* channel);
std::size_t unfinished_tasks(const channel::Channel* channel);
bool join_tasks(channel::Channel* channel, Limit limit);

[[noreturn]] void throw_wrong_length(std::size_t bytes, std::size_t item);

template <class T>
void assign_sequence(void* into, std::span<const std::byte> bytes) {
  using Item = typename T::value_type;
  if (bytes.size() % sizeof(Item) != 0) throw_wrong_length(bytes.size(), sizeof(Item));
  auto& sequence = *static_cast<T*>(into);
  const std::size_t count = bytes.size() / sizeof(Item);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(Item) == 0) {
    // In one pass: resize would clear first what is overwritten at once.
    const auto* first = reinterpret_cast<const Item*>(bytes.data());
    sequence.assign(first, first + count);
  } else {
    sequence.resize(count);
    if (count != 0) std::memcpy(sequence.data(), bytes.data(), bytes.size());
  }
}

// What may be put for a T that is a string or vector, without making one: a view of its items.
template <class View, class T>
struct IsViewOf : std::false_type {};
template <class Item, std::size_t N, Sequence T>
struct IsViewOf<std::span<Item, N>, T> : std::is_same<std::remove_cv_t<Item>, typename T::value_type> {};
template <>
struct IsViewOf<std::string_view, std::string> : std::true_type {};
template <class View, class T>
concept ViewOf = IsViewOf<View, T>::value;

// A message larger than this is nowhere on the stack but where the caller puts it.
inline constexpr std::size_t kMostOnStack = 16 * 1024;

template <std::size_t Alignment>
struct FreeAligned {
  void operator()(std::byte* memory) const noexcept {
    ::operator delete[](memory, std::align_val_t{Alignment});
  }
};
template <class T>
std::byte* aligned_bytes() {
  return static_cast<std::byte*>(::operator new[](sizeof(T), std::align_val_t{alignof(T)}));
}

// The part of a queue that depends on how T travels.
template <class T>
struct Transfer {
  static constexpr std::uint64_t kType = Portable<T> ? 0 : type_hash<T>();

  static bool put(Endpoint endpoint, const T& item, Limit limit) {
    if constexpr (Bytewise<T>) {
      return put_bytes(endpoint, kType, std::as_bytes(std::span<const T, 1>(&item, 1)), limit);
    } else if constexpr (Sequence<T>) {
      return put_view(endpoint, item, limit);
    } else if constexpr (std::same_as<T, Tensor>) {
      return put_tensor(endpoint, item, limit);
    } else {
      return put_value(endpoint, value_of<true>(item),
                       limit);  // lends, so that nothing large is copied twice
    }
  }

  template <class View>
  static bool put_view(Endpoint endpoint, const View& items, Limit limit) {
    return put_bytes(endpoint, kType, std::as_bytes(std::span(items.data(), items.size())), limit);
  }

  // Without a time limit, straight into what the caller makes of it.
  static T get(Endpoint endpoint) {
    if constexpr (Bytewise<T> && std::is_trivially_default_constructible_v<T>) {
      return get_in_place(endpoint);
    } else if constexpr (std::same_as<T, Tensor>) {
      return take_tensor(endpoint);
    } else {
      return *get(endpoint, kForever);
    }
  }

  // A function of its own, since GCC (before 14) returns a variable of an inner block by copying it.
  static T get_in_place(Endpoint endpoint) {
    T item;
    get_bytes(endpoint, kType, std::as_writable_bytes(std::span<T, 1>(&item, 1)), kForever);
    return item;
  }

  static std::optional<T> get(Endpoint endpoint, Limit limit) {
    if constexpr (Bytewise<T> && !std::is_trivially_default_constructible_v<T>) {
      // Nothing large on the stack, which may be a small one.
      constexpr bool kLarge = sizeof(T) > kMostOnStack;
      alignas(T) std::byte small[kLarge ? 1 : sizeof(T)];
      const std::unique_ptr<std::byte[], FreeAligned<alignof(T)>> large(kLarge ? aligned_bytes<T>()
                                                                               : nullptr);
      std::byte* memory = kLarge ? large.get() : small;
      if (!get_bytes(endpoint, kType, {memory, sizeof(T)}, limit)) return std::nullopt;
      return *std::launder(reinterpret_cast<T*>(memory));
    } else if constexpr (Bytewise<T> || Sequence<T>) {
      return get_in_place(endpoint, limit);
    } else if constexpr (std::same_as<T, Tensor>) {
      return get_tensor(endpoint, limit);
    } else {
      const std::optional<Value> value = get_value(endpoint, limit);
      if (!value) return std::nullopt;
      Result<T> item = value->template as<T>();
      if (!item) throw TypeMismatch(item.status());
      return *std::move(item);
    }
  }

  // As the other one: the caller's memory is all that there is of it.
  static std::optional<T> get_in_place(Endpoint endpoint, Limit limit) {
    std::optional<T> item(std::in_place);
    if (!get_into(endpoint, *item, limit)) item.reset();
    return item;
  }

  // False: nothing came, and the item is as it was.
  static bool get_into(Endpoint endpoint, T& item, Limit limit) {
    if constexpr (Bytewise<T>) {
      return get_bytes(endpoint, kType, std::as_writable_bytes(std::span<T, 1>(&item, 1)), limit);
    } else if constexpr (Sequence<T>) {
      return get_sequence(endpoint, kType, assign_sequence<T>, &item, limit);
    } else {
      std::optional<T> got = get(endpoint, limit);
      if (got) item = *std::move(got);
      return got.has_value();
    }
  }
};

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

  // Waits while the queue is full; try_put and put_for only so long, and say whether it was put.
  void put(const T& item) { Transfer::put(channel_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_put(const T& item) { return Transfer::put(channel_.get(), item, 0); }
  template <class Rep, class Period>
  [[nodiscard]] bool put_for(const T& item, std::chrono::duration<Rep, Period> time) {
    return Transfer::put(channel_.get(), item, detail::nanoseconds(time));
  }
  // False: a stop was requested (or the time is over), and nothing was put.
  [[nodiscard]] bool put(const T& item, const std::stop_token& stop) {
    return Transfer::put(channel_.get(), item, stop);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool put_for(const T& item, std::chrono::duration<Rep, Period> time,
                             const std::stop_token& stop) {
    return Transfer::put(channel_.get(), item, {detail::nanoseconds(time), stop});
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool put_until(const T& item, std::chrono::time_point<Clock, Duration> when,
                               const std::stop_token& stop = {}) {
    return Transfer::put(channel_.get(), item, {detail::nanoseconds_until(when), stop});
  }
  // A span into a queue of vectors, a string_view into one of strings: no vector or string is made.
  template <detail::ViewOf<T> View>
  void put(const View& items) {
    Transfer::put_view(channel_.get(), items, detail::kForever);
  }
  template <detail::ViewOf<T> View>
  [[nodiscard]] bool try_put(const View& items) {
    return Transfer::put_view(channel_.get(), items, 0);
  }
  template <detail::ViewOf<T> View>
  [[nodiscard]] bool put(const View& items, const std::stop_token& stop) {
    return Transfer::put_view(channel_.get(), items, stop);
  }
  template <detail::ViewOf<T> View, class Rep, class Period>
  [[nodiscard]] bool put_for(const View& items, std::chrono::duration<Rep, Period> time,
                             const std::stop_token& stop = {}) {
    return Transfer::put_view(channel_.get(), items, {detail::nanoseconds(time), stop});
  }
  template <detail::ViewOf<T> View, class Clock, class Duration>
  [[nodiscard]] bool put_until(const View& items, std::chrono::time_point<Clock, Duration> when,
                               const std::stop_token& stop = {}) {
    return Transfer::put_view(channel_.get(), items, {detail::nanoseconds_until(when), stop});
  }
  // A tensor that is given away: where it is the only one on its memory, the sender's right goes along with
  // the message, and the sender may end at once. The tensor is empty afterwards, if it was put.
  void put(T&& item)
    requires std::same_as<T, Tensor>
  {
    detail::give_tensor(channel_.get(), item, detail::kForever);
  }
  [[nodiscard]] bool try_put(T&& item)
    requires std::same_as<T, Tensor>
  {
    return detail::give_tensor(channel_.get(), item, 0);
  }
  [[nodiscard]] bool put(T&& item, const std::stop_token& stop)
    requires std::same_as<T, Tensor>
  {
    return detail::give_tensor(channel_.get(), item, stop);
  }
  template <class Rep, class Period>
    requires std::same_as<T, Tensor>
  [[nodiscard]] bool put_for(T&& item, std::chrono::duration<Rep, Period> time,
                             const std::stop_token& stop = {}) {
    return detail::give_tensor(channel_.get(), item, {detail::nanoseconds(time), stop});
  }
  template <class Clock, class Duration>
    requires std::same_as<T, Tensor>
  [[nodiscard]] bool put_until(T&& item, std::chrono::time_point<Clock, Duration> when,
                               const std::stop_token& stop = {}) {
    return detail::give_tensor(channel_.get(), item, {detail::nanoseconds_until(when), stop});
  }

  // The oldest message, waiting for one; try_get and get_for only so long: nothing if there is none.
  [[nodiscard]] T get() { return Transfer::get(channel_.get()); }
  [[nodiscard]] std::optional<T> try_get() { return Transfer::get(channel_.get(), 0); }
  template <class Rep, class Period>
  [[nodiscard]] std::optional<T> get_for(std::chrono::duration<Rep, Period> time) {
    return Transfer::get(channel_.get(), detail::nanoseconds(time));
  }
  // Nothing: a stop was requested (or the time is over).
  [[nodiscard]] std::optional<T> get(const std::stop_token& stop) {
    return Transfer::get(channel_.get(), stop);
  }
  template <class Rep, class Period>
  [[nodiscard]] std::optional<T> get_for(std::chrono::duration<Rep, Period> time,
                                         const std::stop_token& stop) {
    return Transfer::get(channel_.get(), {detail::nanoseconds(time), stop});
  }
  template <class Clock, class Duration>
  [[nodiscard]] std::optional<T> get_until(std::chrono::time_point<Clock, Duration> when,
                                           const std::stop_token& stop = {}) {
    return Transfer::get(channel_.get(), {detail::nanoseconds_until(when), stop});
  }
  // The same, into an item that is there already: of a string or vector the memory is used again where it
  // suffices, and a large struct is nowhere else meanwhile. False: nothing came (in time), or a stop was
  // requested; the item is as it was.
  void get_into(T& item) { (void)Transfer::get_into(channel_.get(), item, detail::kForever); }
  [[nodiscard]] bool try_get_into(T& item) { return Transfer::get_into(channel_.get(), item, 0); }
  [[nodiscard]] bool get_into(T& item, const std::stop_token& stop) {
    return Transfer::get_into(channel_.get(), item, stop);
  }
  template <class Rep, class Period>
  [[nodiscard]] bool get_into_for(T& item, std::chrono::duration<Rep, Period> time,
                                  const std::stop_token& stop = {}) {
    return Transfer::get_into(channel_.get(), item, {detail::nanoseconds(time), stop});
  }

  // A moment's truth: others may put and get meanwhile.
  std::size_t size() const { return detail::queue_size(channel_.get()); }
  bool empty() const { return size() == 0; }
  bool full() const { return detail::queue_full(channel_.get()); }
  std::size_t capacity() const { return detail::queue_capacity(channel_.get()); }  // 0: unbounded

  // Gives this handle up; using it afterwards is kClosed.
  void close() noexcept { channel_.reset(); }
  bool closed() const noexcept { return channel_ == nullptr; }

  // As an argument of Process::spawn and Process::program.
  operator ChannelRef() const { return ChannelRef(channel_); }

 private:
  detail::ChannelPtr channel_;
};

}  // namespace forklift
