// How a T travels through an endpoint, whatever that is; included by queue.h, pipe.h, broadcast.h, latest.h.
//
//   Transfer<Frame>::put(endpoint, frame, kForever);
//   std::optional<Frame> frame = Transfer<Frame>::get(endpoint, Limit(wait));
//
// Errors of all, by exceptions: Closed at the end of a stream, Error (kClosed) for an endpoint that is null,
// TypeMismatch and Error (kCorrupt) for a message that is none of this type, which is gone then; what the channel
// answers. False, or an empty optional: the wait is over.
//
// Thread and process safety: as of the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/endpoint.h"
#include "forklift/detail/timeout.h"
#include "forklift/error.h"
#include "forklift/sendable.h"

namespace forklift::inline abi_0_1::detail {

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

// memcpy, but for what no cache would hold.
void copy_received(void* to, const void* from, std::size_t bytes) noexcept;
// Smaller sequences are assigned to.
inline constexpr std::size_t kLargeSequence = std::size_t{1} << 20;

[[noreturn]] void throw_wrong_length(std::size_t bytes, std::size_t item);

template <class T>
void assign_sequence(void* into, std::span<const std::byte> bytes) {
  using Item = typename T::value_type;
  if (bytes.size() % sizeof(Item) != 0) throw_wrong_length(bytes.size(), sizeof(Item));
  auto& sequence = *static_cast<T*>(into);
  const std::size_t count = bytes.size() / sizeof(Item);
  if (bytes.size() >= kLargeSequence && count <= sequence.size()) {
    sequence.resize(count);
    copy_received(sequence.data(), bytes.data(), bytes.size());
  } else if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(Item) == 0) {
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

// Is it received where it is to be, into an object that was made without a value?
template <class T>
inline constexpr bool kTakenInPlace = Bytewise<T> && std::is_trivially_default_constructible_v<T>;

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
      // Lends, so that nothing large is copied twice.
      return put_value(endpoint, value_of<true>(item), limit);
    }
  }

  template <class View>
  static bool put_view(Endpoint endpoint, const View& items, Limit limit) {
    return put_bytes(endpoint, kType, std::as_bytes(std::span(items.data(), items.size())), limit);
  }

  // Without a time limit, straight into what the caller makes of it.
  static T get(Endpoint endpoint) {
    if constexpr (kTakenInPlace<T>) {
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
    if constexpr (Bytewise<T> && !kTakenInPlace<T>) {
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
      return value->template as<T>();
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

}  // namespace forklift::inline abi_0_1::detail
