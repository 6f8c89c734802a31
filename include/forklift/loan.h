// Loaned<T>: an element of a queue or broadcast that is written and read where it lies, in shared memory; nothing is copied,
// however large it is.
//
//   struct Frame { std::uint64_t number; std::uint8_t pixels[1080 * 1920 * 3]; };
//   forklift::Queue<Frame> frames({.capacity = 8});
//
//   auto frame = frames.loan();                     // memory of the arena, not cleared: write all of it
//   frame->number = 7;
//   camera.read_into(frame->pixels);
//   frame.publish();                                // 0.2 us; the loan is used up
//
//   auto seen = frames.get_loaned();                // Loaned<const Frame>: the same memory
//   show(seen->pixels);                             // until `seen` ends
//   for (const auto& each : frames.each_loaned()) show(each->pixels);   // or all of them, one at a time
//
//   Queue<std::vector<float>> parts;                // slices: as many items as the message needs
//   auto part = parts.loan(1'000);                  // Loaned<float[]>: part[i], part.items() is a span
//
//   Queue<Framed<Header, float>> scans;             // a header before the items
//   auto scan = scans.loan(360);                    // scan->time = ...; scan.items()[i] = ...
//
// A Broadcast's loan is seen by all its readers in the one place. What was put can be got as a loan and what was lent
// can be got by value; small messages that were put lie in the message itself and are copied.
//
// Ownership: a loan belongs to the process that took it. It goes back to the arena when it is dropped, and when its
// process dies; publishing it gives it to the message. What was received stays as long as the Loaned does. In a forked
// child both kinds can be read; the child cannot publish its parent's loan: Error (kInvalid).
//
// T: trivially copyable types without pointers, aligned to 4096 bytes at most, their vectors, and Framed of both. The
// memory holds what was there before, not what T's initialisers say: `*frame = Frame{}` where that is wanted.
//
// Thread and process safety: as of a std::unique_ptr. Other processes see what was written before publish().
//
// Errors: loan() throws Error (kOverBudget, kNoSpace, kClosed for an empty handle); publish() what put() throws, and the loan
// is still there then; get_loaned() what get() throws. Reaching into a loan that was published or moved from: Error (kClosed).
//
// Invariant: a message has been lent to one writer, and nobody writes to it after it was published.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "forklift/detail/transfer.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// As a queue's or broadcast's type: messages of a header and any number of items, which are only ever lent.
template <class H, class U>
struct Framed {
  // What a message begins with, and what follows.
  using Header = H;
  using Item = U;
};

namespace channel {
class Incoming;
struct Outgoing;
}  // namespace channel

namespace detail {

inline constexpr std::size_t kMostAligned = 4096;

// Memory that is lent, of whatever type.
class LoanedBytes {
 public:
  LoanedBytes() noexcept = default;
  LoanedBytes(LoanedBytes&& other) noexcept { swap(other); }
  LoanedBytes& operator=(LoanedBytes&& other) noexcept {
    LoanedBytes gone(std::move(other));
    swap(gone);
    return *this;
  }
  ~LoanedBytes() = default;

  // For a message that will be put there.
  static LoanedBytes lend(Endpoint endpoint, std::shared_ptr<const void> keep, std::size_t bytes,
                          std::size_t alignment);
  // The next message there. False: none came before the wait was over.
  static bool borrow(Endpoint endpoint, std::uint64_t type, std::size_t alignment, Limit limit,
                     LoanedBytes& into);

  // False: the wait is over, and the loan is still there. True: it is gone.
  bool publish(std::uint64_t type, Limit limit);
  // The bytes of a received message, in place where that can be.
  static LoanedBytes of_message(channel::Incoming& message, std::size_t alignment);
  // The same for a message that is not put by publish(), which then throws Error (kClosed).
  LoanedBytes detached() && noexcept {
    endpoint_ = Endpoint(static_cast<channel::Channel*>(nullptr));
    return std::move(*this);
  }
  // As publish(), with what puts the message: false, the wait is over.
  using PutLent = bool (*)(const void* context, const channel::Outgoing& message, Limit limit);
  bool publish_by(PutLent put, const void* context, Limit limit);
  bool empty() const noexcept { return data_ == nullptr; }
  std::byte* data() const {
    if (data_ == nullptr) [[unlikely]]
      throw_used_up();
    return data_;
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  [[noreturn]] static void throw_used_up();
  void swap(LoanedBytes& other) noexcept {
    std::swap(lease_, other.lease_);
    std::swap(copy_, other.copy_);
    std::swap(keep_, other.keep_);
    std::swap(endpoint_, other.endpoint_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(owner_, other.owner_);
  }
  struct Free {
    void operator()(std::byte* memory) const noexcept {
      ::operator delete[](memory, std::align_val_t{kMostAligned});
    }
  };
  std::shared_ptr<void> lease_;              // the arena's; the core's own type stays hidden
  std::unique_ptr<std::byte[], Free> copy_;  // of a message that lay in no block
  std::shared_ptr<const void> keep_;         // what the endpoint refers to
  Endpoint endpoint_{static_cast<channel::Channel*>(nullptr)};
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint64_t owner_ = 0;  // the process that it was lent to
};

// How messages of a type lie in their memory.
template <class T>
struct LoanShape;
template <Bytewise T>
struct LoanShape<T> {
  using Written = T;
  using Read = const T;
  static constexpr std::size_t kAlignment = alignof(T);
  static bool fits(std::size_t bytes) noexcept { return bytes == sizeof(T); }
};
template <Sequence T>
struct LoanShape<T> {
  using Written = typename T::value_type[];
  using Read = const typename T::value_type[];
  static constexpr std::size_t kAlignment = alignof(typename T::value_type);
  static bool fits(std::size_t bytes) noexcept { return bytes % sizeof(typename T::value_type) == 0; }
};
template <class H, class U>
struct LoanShape<Framed<H, U>> {
  static_assert(Bytewise<H> && Bytewise<U>, "forklift: a Framed's header and items are trivially copyable");
  using Written = Framed<H, U>;
  using Read = const Framed<H, U>;
  static constexpr std::size_t kAlignment = alignof(H) > alignof(U) ? alignof(H) : alignof(U);
  static constexpr std::size_t kItems = (sizeof(H) + alignof(U) - 1) / alignof(U) * alignof(U);
  static bool fits(std::size_t bytes) noexcept {
    return bytes >= kItems && (bytes - kItems) % sizeof(U) == 0;
  }
};

// count * item + before. Error: kInvalid.
std::size_t loan_bytes(std::size_t count, std::size_t item, std::size_t before);

// What all of them can do.
template <class T>
class LoanBase {
 public:
  // Gives it to the queue or broadcast that it was lent by; waits while that is full. try_publish() false: it was not
  // published before the wait was over, and is still there.
  void publish()
    requires(!std::is_const_v<std::remove_extent_t<T>>)
  {
    (void)memory_.publish(type_, kForever);
  }
  [[nodiscard]] bool try_publish(const Wait& wait = Wait::now())
    requires(!std::is_const_v<std::remove_extent_t<T>>)
  {
    return memory_.publish(type_, wait);
  }
  // False once it was published or moved from.
  explicit operator bool() const noexcept { return !memory_.empty(); }
  // Gives it back, as destruction does.
  void reset() noexcept { memory_ = LoanedBytes(); }
  // For the library's own parts.
  LoanedBytes& memory() noexcept { return memory_; }

 protected:
  LoanBase(LoanedBytes memory, std::uint64_t type) noexcept : memory_(std::move(memory)), type_(type) {}
  LoanedBytes memory_;
  std::uint64_t type_;
};

}  // namespace detail

// One element.
template <class T>
class Loaned : public detail::LoanBase<T> {
 public:
  Loaned(detail::LoanedBytes memory, std::uint64_t type) noexcept
      : detail::LoanBase<T>(std::move(memory), type) {}
  // The element itself.
  T* get() const { return std::launder(reinterpret_cast<T*>(this->memory_.data())); }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
};

// A slice.
template <class U>
class Loaned<U[]> : public detail::LoanBase<U[]> {
 public:
  Loaned(detail::LoanedBytes memory, std::uint64_t type) noexcept
      : detail::LoanBase<U[]>(std::move(memory), type) {}
  // The items themselves, and how many there are.
  std::span<U> items() const { return {reinterpret_cast<U*>(this->memory_.data()), size()}; }
  std::size_t size() const noexcept { return this->memory_.bytes() / sizeof(U); }
  // Precondition: i < size().
  U& operator[](std::size_t i) const { return items()[i]; }
  U* begin() const { return items().data(); }
  U* end() const { return items().data() + size(); }
};

// A header and a slice.
template <class H, class U>
class Loaned<Framed<H, U>> : public detail::LoanBase<Framed<H, U>> {
 public:
  Loaned(detail::LoanedBytes memory, std::uint64_t type) noexcept
      : detail::LoanBase<Framed<H, U>>(std::move(memory), type) {}
  // The header and the items themselves.
  H& header() const { return *std::launder(reinterpret_cast<H*>(this->memory_.data())); }
  H* operator->() const { return &header(); }
  std::span<U> items() const {
    constexpr std::size_t kItems = detail::LoanShape<Framed<H, U>>::kItems;
    return {reinterpret_cast<U*>(this->memory_.data() + kItems),
            (this->memory_.bytes() - kItems) / sizeof(U)};
  }
};
// The same, to be read.
template <class H, class U>
class Loaned<const Framed<H, U>> : public detail::LoanBase<const Framed<H, U>> {
 public:
  Loaned(detail::LoanedBytes memory, std::uint64_t type) noexcept
      : detail::LoanBase<const Framed<H, U>>(std::move(memory), type) {}
  // The header and the items, to be read.
  const H& header() const { return *std::launder(reinterpret_cast<const H*>(this->memory_.data())); }
  const H* operator->() const { return &header(); }
  std::span<const U> items() const {
    constexpr std::size_t kItems = detail::LoanShape<Framed<H, U>>::kItems;
    return {reinterpret_cast<const U*>(this->memory_.data() + kItems),
            (this->memory_.bytes() - kItems) / sizeof(U)};
  }
};

namespace detail {

// The loans of an endpoint of T.
template <class T>
struct Loans {
  using Shape = LoanShape<T>;
  using Written = Loaned<typename Shape::Written>;
  using Read = Loaned<typename Shape::Read>;
  static constexpr std::uint64_t kType = Transfer<T>::kType;
  static_assert(Shape::kAlignment <= kMostAligned, "forklift: what is lent is aligned to 4096 bytes at most");

  template <class Handle>
  static Written lend(const Handle& handle, std::size_t count) {
    std::size_t bytes = 0;
    if constexpr (requires { typename T::Header; }) {
      bytes = loan_bytes(count, sizeof(typename T::Item), Shape::kItems);
    } else if constexpr (Sequence<T>) {
      bytes = loan_bytes(count, sizeof(typename T::value_type), 0);
    } else {
      bytes = sizeof(T);
    }
    return Written(LoanedBytes::lend(Endpoint(handle.get()), handle, bytes, Shape::kAlignment), kType);
  }
  static std::optional<Read> borrow(Endpoint endpoint, Limit limit) {
    LoanedBytes memory;
    if (!LoanedBytes::borrow(endpoint, kType, Shape::kAlignment, limit, memory)) return std::nullopt;
    if (!Shape::fits(memory.bytes()))
      throw_wrong_length(memory.bytes(), sizeof(typename std::remove_extent_t<typename Shape::Read>));
    return Read(std::move(memory), kType);
  }
};

template <class T>
concept Lendable = requires { sizeof(LoanShape<T>); };
template <class T>
concept LendableSlice = Lendable<T> && (Sequence<T> || requires { typename T::Header; });

// A Framed travels as a loan only.
template <class H, class U>
struct Transfer<Framed<H, U>> {
  static constexpr std::uint64_t kType = hash_of("framed", type_hash<H>() * 31 + type_hash<U>());
};

}  // namespace detail
}  // namespace forklift::inline abi_0_1
