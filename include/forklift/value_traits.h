// How the standard library's types become a Value and come back; included by value.h.
//
//   bool, integers, float, double          the scalar of the same meaning
//   std::string, string_view               string (string_view only into a Value)
//   std::vector<std::byte / unsigned char> bytes (also from a list of small integers)
//   std::vector<T>, std::array<T, N>       list
//   std::pair, std::tuple                  list of that length
//   std::map, std::unordered_map, ...      map
//   std::set, std::unordered_set, ...      list
//   std::optional<T>                       null or the T (not of what may be null itself: what was full
//                                          would arrive empty)
//   std::variant                           list of two: number of the alternative, alternative
//   std::monostate                         null
//   std::span<T>                           bytes or list (only into a Value)
//   enums, std::chrono::duration           the number (of ticks)
//   Tensor, Value                          themselves
//
// Maps and sets are known by what they can do, so those of other libraries take part.
//
// Thread and process safety, invariants: those of value.h. Conversions from a Value never lose anything
// without saying so, with one exception: a double becomes the nearest float.
#pragma once

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "forklift/value.h"

namespace forklift {

namespace detail {
// Marks what is known here by what it can do: traits of the program's own come first (sendable.h).
struct KnownHere {};
// By what they can do, so that this header needs no other one's containers.
template <class M>
concept MapLike = requires(M& map, typename M::key_type key, typename M::mapped_type item) {
  map.insert_or_assign(std::move(key), std::move(item));
  map.begin();
};
template <class S>
concept SetLike = !MapLike<S> && requires(S & set, typename S::key_type key) {
  requires std::same_as<typename S::key_type, typename S::value_type>;
  set.insert(std::move(key));
  set.begin();
};
template <class D>
concept DurationLike = requires(const D& time) {
  typename D::period;
  { time.count() } -> std::same_as<typename D::rep>;
  D(typename D::rep{});
};
}  // namespace detail

template <>
struct ValueTraits<Value> {
  static Result<Value> from(const Value& value) { return value; }
};

template <>
struct ValueTraits<bool> {
  static Result<bool> from(const Value& value) {
    const bool* flag = value.get_if<bool>();
    if (flag == nullptr) return detail::wrong_kind(value, "bool");
    return *flag;
  }
};

template <detail::Integer T>
struct ValueTraits<T> {
  static Result<T> from(const Value& value) {
    constexpr std::string_view kWanted = std::is_signed_v<T> ? "a signed integer" : "an unsigned integer";
    const Result<detail::Whole> whole = detail::whole_number(value, kWanted);
    if (!whole) return whole.status();
    const bool fits =
        whole->negative ? std::is_signed_v<T> && static_cast<std::int64_t>(whole->bits) >=
                                                     static_cast<std::int64_t>(std::numeric_limits<T>::min())
                        : whole->bits <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (!fits) return detail::out_of_range(value, kWanted);
    return static_cast<T>(whole->bits);
  }
};

template <>
struct ValueTraits<double> {
  static Result<double> from(const Value& value) { return detail::real_number(value, "double"); }
};

template <>
struct ValueTraits<float> {
  static Result<float> from(const Value& value) {
    const Result<double> wide = detail::real_number(value, "float");
    if (!wide) return wide.status();
    // What rounds to the largest float still is one; beyond, a finite number would become infinite.
    constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double size = *wide < 0 ? -*wide : *wide;
    if (size > kMost && size < kInfinity) return detail::out_of_range(value, "float");
    return static_cast<float>(*wide);
  }
};

template <>
struct ValueTraits<std::string> {
  static Result<std::string> from(const Value& value) {
    const auto* text = value.get_if<std::string>();
    if (text == nullptr) return detail::wrong_kind(value, "string");
    return *text;
  }
};

template <>
struct ValueTraits<Tensor> {
  static Result<Tensor> from(const Value& value) {
    const auto* tensor = value.get_if<Tensor>();
    if (tensor == nullptr) return detail::wrong_kind(value, "tensor");
    return *tensor;
  }
};

namespace detail {
// An optional of these could not be told from an empty one.
template <class T>
struct MayBeNull : std::bool_constant<std::same_as<T, Value> || std::same_as<T, std::monostate>> {};
template <class T>
struct MayBeNull<std::optional<T>> : std::true_type {};
template <class T>
constexpr void check_optional() {
  static_assert(!MayBeNull<T>::value,
                "forklift: an optional of what may be null itself (an optional, a forklift::Value) could "
                "arrive as an empty one; send a forklift::Value or a std::variant");
}
}  // namespace detail

template <class T>
struct ValueTraits<std::optional<T>> {
  static Value to(const std::optional<T>& object) {
    detail::check_optional<T>();
    return object ? Value(*object) : Value();
  }
  static Result<std::optional<T>> from(const Value& value) {
    detail::check_optional<T>();
    if (value.is_null()) return std::optional<T>();
    Result<T> inner = value.as<T>();
    if (!inner) return inner.status();
    return std::optional<T>(*std::move(inner));
  }
};

namespace detail {
// Appends the elements of a list to `out`, anything with push_back.
template <class T, class Out>
Status append_elements(const Value& value, Out& out) {
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return wrong_kind(value, "list");
  out.reserve(list->size());
  for (const Value& element : *list) {
    Result<T> item = element.as<T>();
    if (!item) return item.status();
    out.push_back(*std::move(item));
  }
  return {};
}

template <class T>
concept ByteLike = std::same_as<T, std::byte> || std::same_as<T, unsigned char>;

template <class Tuple, std::size_t... I>
Result<Tuple> tuple_from(const Value::List& list, std::index_sequence<I...>) {
  std::tuple<Result<std::tuple_element_t<I, Tuple>>...> items{
      list[I].as<std::tuple_element_t<I, Tuple>>()...};
  Status failure;
  const auto note = [&](const Status& status) {
    if (failure.ok()) failure = status;
  };
  (note(std::get<I>(items).status()), ...);
  if (!failure.ok()) return failure;
  return Tuple(*std::move(std::get<I>(items))...);
}

template <class Tuple>
Result<Tuple> tuple_from(const Value& value) {
  constexpr std::size_t kSize = std::tuple_size_v<Tuple>;
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr || list->size() != kSize) {
    return wrong_kind(value, "list of " + std::to_string(kSize));
  }
  return tuple_from<Tuple>(*list, std::make_index_sequence<kSize>());
}

template <class Tuple>
Value tuple_to(const Tuple& object) {
  return std::apply([](const auto&... items) { return Value(Value::List{Value(items)...}); }, object);
}

template <class M>
struct MapTraits : KnownHere {
  static Value to(const M& object) {
    Value::Map map;
    map.reserve(object.size());
    for (const auto& [key, item] : object) map.emplace_back(Value(key), Value(item));
    return map;
  }
  // Of equal keys the last one counts, as in a Python dict.
  static Result<M> from(const Value& value) {
    const auto* map = value.get_if<Value::Map>();
    if (map == nullptr) return wrong_kind(value, "map");
    M object;
    for (const auto& [key, item] : *map) {
      Result<typename M::key_type> k = key.template as<typename M::key_type>();
      if (!k) return k.status();
      Result<typename M::mapped_type> v = item.template as<typename M::mapped_type>();
      if (!v) return v.status();
      object.insert_or_assign(*std::move(k), *std::move(v));
    }
    return object;
  }
};
}  // namespace detail

template <class T>
struct ValueTraits<std::vector<T>> {
  static Value to(const std::vector<T>& object) {
    Value::List list;
    list.reserve(object.size());
    for (const T& item : object) list.emplace_back(item);
    return list;
  }
  static Result<std::vector<T>> from(const Value& value) {
    std::vector<T> object;
    if (Status status = detail::append_elements<T>(value, object); !status.ok()) return status;
    return object;
  }
};

template <detail::ByteLike T>
struct ValueTraits<std::vector<T>> {
  static Value to(const std::vector<T>& object) {
    Value::Bytes bytes(object.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), object.data(), bytes.size());
    return bytes;
  }
  static Result<std::vector<T>> from(const Value& value) {
    if (const auto* bytes = value.get_if<Value::Bytes>()) {
      std::vector<T> object(bytes->size());
      if (!object.empty()) std::memcpy(object.data(), bytes->data(), object.size());
      return object;
    }
    if (value.get_if<Value::List>() == nullptr) return detail::wrong_kind(value, "bytes");
    std::vector<unsigned char> numbers;
    if (Status status = detail::append_elements<unsigned char>(value, numbers); !status.ok()) return status;
    std::vector<T> object;
    object.reserve(numbers.size());
    for (const unsigned char number : numbers) object.push_back(T{number});
    return object;
  }
};

template <class T, std::size_t N>
struct ValueTraits<std::array<T, N>> {
  static Value to(const std::array<T, N>& object) { return detail::tuple_to(object); }
  static Result<std::array<T, N>> from(const Value& value) {
    std::vector<T> items;
    if (Status status = detail::append_elements<T>(value, items); !status.ok()) return status;
    if (items.size() != N) return detail::wrong_kind(value, "list of " + std::to_string(N));
    std::array<T, N> object{};
    for (std::size_t i = 0; i < N; ++i) object[i] = std::move(items[i]);
    return object;
  }
};

template <class A, class B>
struct ValueTraits<std::pair<A, B>> {
  static Value to(const std::pair<A, B>& object) { return detail::tuple_to(object); }
  static Result<std::pair<A, B>> from(const Value& value) {
    return detail::tuple_from<std::pair<A, B>>(value);
  }
};

template <class... T>
struct ValueTraits<std::tuple<T...>> {
  static Value to(const std::tuple<T...>& object) { return detail::tuple_to(object); }
  static Result<std::tuple<T...>> from(const Value& value) {
    return detail::tuple_from<std::tuple<T...>>(value);
  }
};

template <detail::MapLike M>
struct ValueTraits<M> : detail::MapTraits<M> {};

template <detail::SetLike S>
struct ValueTraits<S> : detail::KnownHere {
  static Value to(const S& object) {
    Value::List list;
    for (const auto& item : object) list.emplace_back(item);
    return list;
  }
  static Result<S> from(const Value& value) {
    std::vector<typename S::key_type> items;
    if (Status status = detail::append_elements<typename S::key_type>(value, items); !status.ok()) {
      return status;
    }
    S object;
    for (auto& item : items) object.insert(std::move(item));
    return object;
  }
};

template <class T, std::size_t N>
struct ValueTraits<std::span<T, N>> {
  static Value to(const std::span<T, N>& items) {
    if constexpr (detail::ByteLike<std::remove_cv_t<T>>) {
      const auto bytes = std::as_bytes(items);
      return Value::Bytes(bytes.begin(), bytes.end());
    } else {
      return Value::List(items.begin(), items.end());
    }
  }
};

template <>
struct ValueTraits<std::monostate> : detail::KnownHere {
  static Value to(const std::monostate&) { return {}; }
  static Result<std::monostate> from(const Value& value) {
    if (!value.is_null()) return detail::wrong_kind(value, "null");
    return std::monostate();
  }
};

template <class... T>
struct ValueTraits<std::variant<T...>> {
  using Variant = std::variant<T...>;
  static Value to(const Variant& object) {
    return std::visit(
        [&](const auto& held) {
          return Value(Value::List{Value(std::uint64_t{object.index()}), Value(held)});
        },
        object);
  }
  static Result<Variant> from(const Value& value) { return from(value, std::index_sequence_for<T...>()); }

 private:
  template <std::size_t I>
  static Result<Variant> alternative(const Value& value) {
    Result<std::variant_alternative_t<I, Variant>> held =
        value.template as<std::variant_alternative_t<I, Variant>>();
    if (!held) return held.status();
    return Variant(std::in_place_index<I>, *std::move(held));
  }
  template <std::size_t... I>
  static Result<Variant> from(const Value& value, std::index_sequence<I...>) {
    using Decode = Result<Variant> (*)(const Value&);
    static constexpr Decode kDecode[] = {&alternative<I>...};
    const auto* parts = value.get_if<Value::List>();
    if (parts == nullptr || parts->size() != 2) return detail::wrong_kind(value, "a variant");
    const Result<std::size_t> index = parts->front().template as<std::size_t>();
    if (!index) return index.status();
    if (*index >= sizeof...(T)) return detail::out_of_range(parts->front(), "the number of an alternative");
    return kDecode[*index](parts->back());
  }
};

template <class E>
requires std::is_enum_v<E>
struct ValueTraits<E> : detail::KnownHere {
  using Number = std::underlying_type_t<E>;
  static Value to(const E& object) { return Value(static_cast<Number>(object)); }
  static Result<E> from(const Value& value) {
    const Result<Number> number = value.as<Number>();
    if (!number) return number.status();
    return static_cast<E>(*number);
  }
};

template <detail::DurationLike D>
struct ValueTraits<D> : detail::KnownHere {
  static Value to(const D& object) { return Value(object.count()); }
  static Result<D> from(const Value& value) {
    const auto ticks = value.as<typename D::rep>();
    if (!ticks) return ticks.status();
    return D(*ticks);
  }
};

namespace detail {
// What Value knows, both ways; of a container, whether it knows the elements.
template <class T>
    struct KnownToValue
    : std::bool_constant < std::constructible_from<Value, const T&>&& requires(const Value& value) {
  { ValueTraits<T>::from(value) } -> std::same_as<Result<T>>;
} > {};
template <class T>
struct KnownToValue<std::vector<T>> : KnownToValue<T> {};
template <class T, std::size_t N>
struct KnownToValue<std::array<T, N>> : KnownToValue<T> {};
template <class T>
struct KnownToValue<std::optional<T>> : std::conjunction<KnownToValue<T>, std::negation<MayBeNull<T>>> {};
template <class A, class B>
struct KnownToValue<std::pair<A, B>> : std::conjunction<KnownToValue<A>, KnownToValue<B>> {};
template <class... T>
struct KnownToValue<std::tuple<T...>> : std::conjunction<KnownToValue<T>...> {};
template <class... T>
struct KnownToValue<std::variant<T...>> : std::conjunction<KnownToValue<T>...> {};
template <MapLike M>
struct KnownToValue<M>
    : std::conjunction<KnownToValue<typename M::key_type>, KnownToValue<typename M::mapped_type>> {};
template <SetLike S>
struct KnownToValue<S> : KnownToValue<typename S::key_type> {};
}  // namespace detail

}  // namespace forklift
