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
//   own        a type with ValueTraits of the program's own (fields.h: one line; value.h: by hand): as these
//              say, portably; so do vectors, arrays, optionals, ... of it.
//   bytes      trivially copyable types but pointers, views and references; std::string; std::vector of such.
//              That a struct holds no pointer inside is the program's to know.
//   portable   Tensor, Value, and what value_traits.h knows: maps, sets, lists of strings, tuples, variants.
//              Python reads these, and the program's own types, too (forklift.PortableQueue).
//
// Each message carries the hash of its type's name, so that a queue read as another type is an error, not
// garbage. Between programs built by different compilers a struct's name may differ: TypeName fixes it.
//
// Thread and process safety: compile-time only.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "forklift/detail/hash.h"
#include "forklift/detail/plain.h"
#include "forklift/value.h"

namespace forklift::inline abi_0_1 {

template <class T>
struct TypeName {};

namespace detail {

// The program has said itself how its type becomes a Value: what is to be sent are not its bytes, among which
// may be a pointer.
template <class T>
concept OwnTraits = !std::is_arithmetic_v<T> && requires {
  sizeof(ValueTraits<T>);
  requires !std::is_base_of_v<KnownHere, ValueTraits<T>>;
};
template <class T>
struct Hooked : std::bool_constant<OwnTraits<T>> {};
template <class T>
struct Hooked<std::optional<T>> : Hooked<T> {};
template <class T, std::size_t N>
struct Hooked<std::array<T, N>> : Hooked<T> {};
template <class A, class B>
struct Hooked<std::pair<A, B>> : std::disjunction<Hooked<A>, Hooked<B>> {};
template <class... T>
struct Hooked<std::tuple<T...>> : std::disjunction<Hooked<T>...> {};
template <class... T>
struct Hooked<std::variant<T...>> : std::disjunction<Hooked<T>...> {};

template <class T>
concept Bytewise = Plain<T> && !Hooked<T>::value;

// Contiguous elements that are bytes: std::string and vectors. Not vector<bool>, which has no elements.
template <class T>
struct IsSequence : std::false_type {};
template <>
struct IsSequence<std::string> : std::true_type {};
template <class T, class Allocator>
struct IsSequence<std::vector<T, Allocator>> : std::bool_constant<Bytewise<T> && !std::same_as<T, bool>> {};
template <class T>
concept Sequence = IsSequence<T>::value;

template <class T>
concept Portable = !Bytewise<T> && !Sequence<T> && KnownToValue<T>::value;

// --- names of types, as a hash
template <class T>
constexpr std::string_view pretty_name() noexcept {
  // "... pretty_name() [with T = NAME; std::string_view = ...]" or "... [T = NAME]"
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  const std::size_t more = text.find(';');
  return text.substr(0, more < text.size() ? more : text.size() - 1);
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
    return hash_of_type_name(pretty_name<T>(), hash_of("type") + sizeof(T) * 31 + alignof(T));
  }
}

}  // namespace detail

template <class T>
concept Sendable = detail::Bytewise<T> || detail::Sequence<T> || detail::Portable<T>;

class ChannelRef;

namespace detail {

// --- why a type cannot be sent, for the compiler to say
template <class T>
concept Handle = requires(T& handle) { handle.ref(); } ||
                 requires(T& handle) { handle.operator ChannelRef(); } || requires(T& handle) {
                   handle.fileno();
                   handle.close();
                 };
// std::deque, std::list.
template <class T>
concept OtherContainer =
    std::is_array_v<T> || requires(T& items, const typename T::value_type& item) { items.push_front(item); };

template <class T>
constexpr bool fields_are_known() {
  if constexpr (requires { ValueTraits<T>::fields_are_known(); }) {
    return ValueTraits<T>::fields_are_known();
  } else {
    return true;
  }
}

template <class T, bool = Sendable<T>>
struct CanBeSent : std::true_type {
  // As fields.h says it when a value is made; here it is among the compiler's first lines.
  static_assert(
      fields_are_known<T>(),
      "forklift: a field of this struct cannot be sent to another process: give its type a "
      "ValueTraits, too (one line with forklift::Fields), and send what a pointer or view refers to");
};
template <class T>
struct CanBeSent<T, false> : std::true_type {  // the first error is enough
  static_assert(
      !RefersElsewhere<T>::value,
      "forklift: a pointer, view or reference means nothing in another process; send what it refers "
      "to (std::string, std::vector, forklift::Tensor)");
  static_assert(
      !Handle<T>,
      "forklift: a handle (a queue, lock, connection, ...) does not travel in a message: a process is "
      "given it as an argument, or captures it when it is forked");
  static_assert(!Callable<T>,
                "forklift: a callable does not travel in a message: send what it is to work on, and register "
                "the function (forklift::Registered)");
  static_assert(!OtherContainer<T>,
                "forklift: this container cannot be sent to another process: use std::vector or std::array");
  static_assert(!LosesNull<T>::value,
                "forklift: an optional of what may be null itself (an optional, a forklift::Value) could "
                "arrive as an empty one; send a forklift::Value or a std::variant");
  static_assert(
      RefersElsewhere<T>::value || Handle<T> || Callable<T> || OtherContainer<T> || LosesNull<T>::value,
      "forklift: this type cannot be sent to another process: it is neither trivially copyable, nor a "
      "string or vector of such, nor known to forklift::Value; for a struct one line makes it known: "
      "template <> struct forklift::ValueTraits<T> : forklift::Fields<&T::a, &T::b> {};");
};

}  // namespace detail

}  // namespace forklift::inline abi_0_1
