// How vectors, arrays and the elements of containers become a Value and come back; included by value.h.
//
//   std::vector, std::array, T[N], std::span of numbers   packed (packed.h): one copy, whatever the length
//   of std::byte, unsigned char, of char as T[N]          bytes
//   of plain structs (plain.h) without traits             bytes: theirs, one behind the other
//   of anything else                                      list
//   std::vector<bool>                                     packed, too
//   std::complex                                          list of two
//
// Whoever puts a message may have a Value that *lends* the elements of what is sent, for as long as the put
// takes: traits with a make<Lend> say how. Traits of the program's own have only to(), which copies.
//
// Thread and process safety, invariants: those of value.h.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/detail/value_base.h"

namespace forklift::inline abi_0_1::detail {

// --- one element of a container, one field of a struct

template <class T>
concept HasTraits = requires { sizeof(ValueTraits<T>); };
// A struct that is its bytes, and of which the program says nothing else. Not what is a mere mark or a
// callable.
template <class T>
concept PlainBytes =
    !HasTraits<T> && !std::constructible_from<Value, const T&> &&
    (std::is_class_v<T> || std::is_union_v<T>) && Plain<T> && !std::is_empty_v<T> && !Callable<T>;

template <bool Lend, class T>
Value value_of(const T& object) {
  if constexpr (requires { ValueTraits<T>::template make<Lend>(object); }) {
    return ValueTraits<T>::template make<Lend>(object);
  } else if constexpr (PlainBytes<T>) {
    const auto bytes = std::as_bytes(std::span<const T, 1>(&object, 1));
    return Value::Bytes(bytes.begin(), bytes.end());
  } else {
    return Value(object);
  }
}

// The bytes of a Value that holds such, packed or not; null: it holds something else.
inline const std::byte* bytes_in(const Value& value, std::size_t& size) noexcept {
  if (const Packed* packed = value.packed(); packed != nullptr && packed->type().bytes) {
    size = packed->memory().size();
    return packed->memory().data();
  }
  if (value.kind() != Value::Kind::kBytes) return nullptr;
  static constexpr std::byte kNone{};
  const Value::Bytes& bytes = *value.get_if<Value::Bytes>();
  size = bytes.size();
  return size == 0 ? &kNone : bytes.data();
}

template <class T>
T value_as(const Value& value) {
  if constexpr (PlainBytes<T>) {
    std::size_t size = 0;
    const std::byte* bytes = bytes_in(value, size);
    if (bytes == nullptr || size != sizeof(T))
      mismatch(value, std::to_string(sizeof(T)) + " bytes of a struct");
    return made_of_bytes<T>([&](std::byte* memory) { std::memcpy(memory, bytes, sizeof(T)); });
  } else {
    return value.as<T>();
  }
}

// --- several

template <class T>
concept ByteLike = std::same_as<T, std::byte> || std::same_as<T, unsigned char>;
// Their elements as one piece of bytes.
template <class T>
concept BytesInARow = ByteLike<T> || PlainBytes<T>;
template <class T>
concept InARow = BytesInARow<T> || Packs<T>;

template <InARow T>
constexpr PackedType row_type() {
  if constexpr (BytesInARow<T>) {
    return {};
  } else {
    return kPackedType<T>;
  }
}

// The elements, lent or copied. A few bytes are no worse off as what they are.
template <bool Lend, InARow T>
Value row_of(const T* items, std::size_t count) {
  const std::span<const std::byte> memory = std::as_bytes(std::span<const T>(items, count));
  if constexpr (BytesInARow<T>) {
    if (memory.size() <= 64) return Value::Bytes(memory.begin(), memory.end());
  }
  if constexpr (Lend) {
    return Value(std::make_shared<const Packed>(row_type<T>(), memory, nullptr));
  } else {
    return Value(std::make_shared<const Packed>(row_type<T>(), memory));
  }
}

template <bool Lend, class T>
Value list_of(const T* items, std::size_t count) {
  if constexpr (InARow<T>) {
    return row_of<Lend>(items, count);
  } else {
    Value::List list;
    list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) list.push_back(value_of<Lend>(items[i]));
    return list;
  }
}

// Copies `bytes`, which are whole Ts, to the end of `out`.
template <class T, class Out>
void append_copies(std::span<const std::byte> bytes, Out& out) {
  const std::size_t count = bytes.size() / sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0) {
    const auto* first = reinterpret_cast<const T*>(bytes.data());
    out.insert(out.end(), first, first + count);  // in one pass: resize would clear first
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    alignas(T) std::byte memory[sizeof(T)];
    std::memcpy(memory, bytes.data() + i * sizeof(T), sizeof(T));
    out.push_back(*std::launder(reinterpret_cast<T*>(memory)));
  }
}

template <class T, class Out>
void append_packed(const Packed& packed, Out& out) {
  if constexpr (CopiesPacked<T>) {
    if (packed.type() == kPackedType<T>) return append_copies<T>(packed.memory(), out);
  }
  for (std::size_t i = 0; i < packed.size(); ++i) out.push_back(value_as<T>(packed.at(i)));
}

// Appends what a Value holds to `out`, a vector of Ts.
template <class T, class Out>
void append_elements(const Value& value, Out& out) {
  if constexpr (BytesInARow<T>) {
    std::size_t size = 0;
    if (const std::byte* bytes = bytes_in(value, size)) {
      if (size % sizeof(T) != 0) mismatch(value, "bytes of whole structs");
      return append_copies<T>({bytes, size}, out);
    }
    if (PlainBytes<T> || value.kind() != Value::Kind::kList) mismatch(value, "bytes");
  }
  if (const Packed* packed = value.packed(); packed != nullptr && !packed->type().bytes) {
    out.reserve(out.size() + packed->size());
    return append_packed<T>(*packed, out);
  }
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) mismatch(value, "list");
  out.reserve(out.size() + list->size());
  for (const Value& element : *list) {
    if constexpr (std::same_as<T, std::byte>) {
      out.push_back(T{element.as<unsigned char>()});
    } else {
      out.push_back(value_as<T>(element));
    }
  }
}

// Exactly N of them.
template <std::size_t N, class T, class Array>
void fill_array(const Value& value, Array& into) {
  std::vector<T> items;
  append_elements<T>(value, items);
  if (items.size() != N) mismatch(value, "list of " + std::to_string(N));
  for (std::size_t i = 0; i < N; ++i) into[i] = std::move(items[i]);
}

// --- arrays of the language, which only fields can be

// What the elements are taken for: text in a fixed length is bytes, since it need not be UTF-8.
template <class T>
using ArrayItem = std::conditional_t<std::same_as<T, char>, unsigned char, T>;

template <bool Lend, class T, std::size_t N>
Value value_of(const T (&array)[N]) {
  if constexpr (std::is_array_v<T>) {
    Value::List list;
    list.reserve(N);
    for (const T& inner : array) list.push_back(value_of<Lend>(inner));
    return list;
  } else {
    return list_of<Lend>(reinterpret_cast<const ArrayItem<T>*>(array), N);
  }
}

template <class T, std::size_t N>
void read_array(const Value& value, T (&into)[N]) {
  if constexpr (std::is_array_v<T>) {
    const auto* list = value.get_if<Value::List>();
    if (list == nullptr || list->size() != N) mismatch(value, "list of " + std::to_string(N));
    for (std::size_t i = 0; i < N; ++i) read_array((*list)[i], into[i]);
  } else {
    fill_array<N, ArrayItem<T>>(value, reinterpret_cast<ArrayItem<T>(&)[N]>(into));
  }
}

}  // namespace forklift::inline abi_0_1::detail

namespace forklift::inline abi_0_1 {

template <class T>
struct ValueTraits<std::vector<T>> {
  template <bool Lend>
  static Value make(const std::vector<T>& object) {
    if constexpr (std::same_as<T, bool>) {
      auto flags = std::make_shared<Value::Bytes>();
      flags->reserve(object.size());
      for (const bool flag : object) flags->push_back(std::byte{flag});
      const std::span<const std::byte> memory = *flags;
      return Value(
          std::make_shared<const detail::Packed>(detail::kPackedType<bool>, memory, std::move(flags)));
    } else {
      return detail::list_of<Lend>(object.data(), object.size());
    }
  }
  static Value to(const std::vector<T>& object) { return make<false>(object); }
  static std::vector<T> from(const Value& value) {
    std::vector<T> object;
    detail::append_elements<T>(value, object);
    return object;
  }
};

template <class T, std::size_t N>
struct ValueTraits<std::array<T, N>> {
  template <bool Lend>
  static Value make(const std::array<T, N>& object) {
    return detail::list_of<Lend>(object.data(), N);
  }
  static Value to(const std::array<T, N>& object) { return make<false>(object); }
  static std::array<T, N> from(const Value& value) {
    std::array<T, N> object{};
    detail::fill_array<N, T>(value, object);
    return object;
  }
};

template <class T, std::size_t N>
struct ValueTraits<std::span<T, N>> {
  template <bool Lend>
  static Value make(const std::span<T, N>& items) {
    return detail::list_of<Lend, std::remove_cv_t<T>>(items.data(), items.size());
  }
  static Value to(const std::span<T, N>& items) { return make<false>(items); }
};

template <std::floating_point T>
  requires detail::Real<T>
struct ValueTraits<std::complex<T>> : detail::KnownHere {
  static Value to(const std::complex<T>& number) {
    return Value::List{Value(number.real()), Value(number.imag())};
  }
  static std::complex<T> from(const Value& value) {
    const auto parts = value.as<std::array<T, 2>>();
    return std::complex<T>(parts[0], parts[1]);
  }
};

}  // namespace forklift::inline abi_0_1
