// Which types can be sent to another process, and how.
//
//   static_assert(forklift::Sendable<Pose>);            // a struct of numbers: its bytes
//   static_assert(forklift::Sendable<std::string>);     // likewise, and vectors of such structs
//   static_assert(forklift::Sendable<forklift::Tensor>);
//   static_assert(!forklift::Sendable<const char*>);    // an address means nothing elsewhere
//
//   template <> struct forklift::TypeName<Pose> {       // needed only between different compilers
//     static constexpr std::string_view value = "robot.Pose";
//   };
//
// A type travels in the first of these ways that applies:
//   bytes      trivially copyable types but pointers, views and references; std::string; std::vector of such.
//              That a struct holds no pointer inside is the program's to know.
//   portable   Tensor, Value, and what has ValueTraits (value.h): maps, lists of strings, tuples, own types.
//              Python reads these, too (forklift queues with portable=True).
//
// Each message carries the hash of its type's name, so that a queue read as another type is an error, not
// garbage. Between programs built by different compilers a struct's name may differ: TypeName fixes it.
//
// Thread and process safety: compile-time only.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forklift/value.h"

namespace forklift {

template <class T>
struct TypeName {};

namespace detail {

// --- what is bytes
template <class T>
struct RefersElsewhere
    : std::bool_constant<std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>> {};
template <class C, class Traits>
struct RefersElsewhere<std::basic_string_view<C, Traits>> : std::true_type {};
template <class T, std::size_t N>
struct RefersElsewhere<std::span<T, N>> : std::true_type {};
template <class T>
struct RefersElsewhere<std::reference_wrapper<T>> : std::true_type {};

template <class T>
concept Bytewise = std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_array_v<T> &&
                   std::same_as<T, std::remove_cv_t<T>> && !RefersElsewhere<T>::value;

// Contiguous elements that are bytes: std::string and vectors. Not vector<bool>, which has no elements.
template <class T>
struct IsSequence : std::false_type {};
template <>
struct IsSequence<std::string> : std::true_type {};
template <class T, class Allocator>
struct IsSequence<std::vector<T, Allocator>> : std::bool_constant<Bytewise<T> && !std::same_as<T, bool>> {};
template <class T>
concept Sequence = IsSequence<T>::value;

// --- what Value knows; of a container, whether it knows the elements
template <class T>
    struct KnownToValue
    : std::bool_constant < std::constructible_from<Value, const T&>&& requires(const Value& value) {
  { ValueTraits<T>::from(value) } -> std::same_as<Result<T>>;
} > {};
template <class T, class Allocator>
struct KnownToValue<std::vector<T, Allocator>> : KnownToValue<T> {};
template <class T, std::size_t N>
struct KnownToValue<std::array<T, N>> : KnownToValue<T> {};
template <class T>
struct KnownToValue<std::optional<T>> : KnownToValue<T> {};
template <class A, class B>
struct KnownToValue<std::pair<A, B>> : std::conjunction<KnownToValue<A>, KnownToValue<B>> {};
template <class... T>
struct KnownToValue<std::tuple<T...>> : std::conjunction<KnownToValue<T>...> {};
template <class K, class V, class Compare, class Allocator>
struct KnownToValue<std::map<K, V, Compare, Allocator>> : std::conjunction<KnownToValue<K>, KnownToValue<V>> {
};
template <class K, class V, class Hash, class Equal, class Allocator>
struct KnownToValue<std::unordered_map<K, V, Hash, Equal, Allocator>>
    : std::conjunction<KnownToValue<K>, KnownToValue<V>> {};

template <class T>
concept Portable = !Bytewise<T> && !Sequence<T> && KnownToValue<T>::value;

// --- names of types, as a hash
constexpr std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ULL) noexcept {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return seed;
}

template <class T>
constexpr std::string_view pretty_name() noexcept {
  // "... pretty_name() [with T = NAME; std::string_view = ...]" or "... [T = NAME]"
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  return text.substr(0, std::min(text.find(';'), text.size() - 1));
}

template <class T>
concept Named = requires {
  { TypeName<T>::value } -> std::convertible_to<std::string_view>;
};

template <class T>
constexpr std::uint64_t type_hash() noexcept {
  if constexpr (Named<T>) {
    return hash_of(TypeName<T>::value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    // By kind and size: `long` and `long long` are the same numbers.
    const char kind = std::same_as<T, bool>         ? 'b'
                      : std::is_floating_point_v<T> ? 'f'
                      : std::is_signed_v<T>         ? 'i'
                                                    : 'u';
    const char name[] = {kind, static_cast<char>('0' + sizeof(T))};
    return hash_of(std::string_view(name, 2));
  } else if constexpr (std::same_as<T, std::string>) {
    return hash_of("string");
  } else if constexpr (Sequence<T>) {
    return hash_of("vector", type_hash<typename T::value_type>());
  } else {
    return hash_of(pretty_name<T>(), hash_of("type") + sizeof(T) * 31 + alignof(T));
  }
}

}  // namespace detail

template <class T>
concept Sendable = detail::Bytewise<T> || detail::Sequence<T> || detail::Portable<T>;

}  // namespace forklift
