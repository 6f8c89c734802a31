// Plain: types whose bytes are all there is to them; included by sendable.h.
//
//   static_assert(forklift::detail::Plain<Pose>);          // a struct of numbers
//   static_assert(!forklift::detail::Plain<const char*>);  // an address means nothing in another process
//
// That a struct holds no pointer inside is the program's to know.
//
// Thread and process safety: compile-time only.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace forklift::inline abi_0_1::detail {

template <class T>
struct RefersElsewhere
    : std::bool_constant<std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>> {};
template <class C, class Traits>
struct RefersElsewhere<std::basic_string_view<C, Traits>> : std::true_type {};
template <class T, std::size_t N>
struct RefersElsewhere<std::span<T, N>> : std::true_type {};
// std::reference_wrapper and its kin, by what they do: <functional> is a large header.
template <class T>
  requires requires(const T& reference) {
    typename T::type;
    { reference.get() } -> std::same_as<typename T::type&>;
    requires std::convertible_to<const T&, typename T::type&>;
  }
struct RefersElsewhere<T> : std::true_type {};
// Trivially copyable or not: a pointer inside is one.
template <class T, class Allocator>
struct RefersElsewhere<std::vector<T, Allocator>> : RefersElsewhere<T> {};
template <class T>
struct RefersElsewhere<std::optional<T>> : RefersElsewhere<T> {};
template <class T, std::size_t N>
struct RefersElsewhere<std::array<T, N>> : RefersElsewhere<T> {};
template <class A, class B>
struct RefersElsewhere<std::pair<A, B>> : std::disjunction<RefersElsewhere<A>, RefersElsewhere<B>> {};
template <class... T>
struct RefersElsewhere<std::tuple<T...>> : std::disjunction<RefersElsewhere<T>...> {};
template <class... T>
struct RefersElsewhere<std::variant<T...>> : std::disjunction<RefersElsewhere<T>...> {};

// What shared memory can hold.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_array_v<T> &&
                std::same_as<T, std::remove_cv_t<T>> && !RefersElsewhere<T>::value;

// A T whose bytes `fill(memory)` writes; where it can be made without a value, they are written in place.
template <class T, class Fill>
  requires std::is_trivially_default_constructible_v<T>
T made_of_bytes(Fill&& fill) {
  T item;
  fill(reinterpret_cast<std::byte*>(&item));
  return item;
}
template <class T, class Fill>
T made_of_bytes(Fill&& fill) {
  alignas(T) std::byte memory[sizeof(T)];
  fill(memory);
  return *std::launder(reinterpret_cast<T*>(memory));
}

template <class T>
concept Callable = requires { &T::operator(); };

}  // namespace forklift::inline abi_0_1::detail
