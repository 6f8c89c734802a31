// How the standard library's types become a Value and come back; included by value.h.
//
//   bool, integers, float, double          the scalar of the same meaning
//   std::string, string_view               string (string_view only into a Value)
//   std::vector<T>, std::array<T, N>       list, bytes: value_lists.h
//   std::pair, std::tuple                  list of that length
//   std::map, std::unordered_map, ...      map; a list of pairs where the keys have parts (a std::pair, ...)
//   std::set, std::unordered_set, ...      list
//   std::optional<T>                       null or the T (not of what may be null itself: what was full
//                                          would arrive empty)
//   std::variant                           list of two: number of the alternative, alternative
//   std::monostate                         null
//   enums, std::chrono::duration           the number (of ticks)
//   std::chrono::time_point                likewise, since its clock's epoch
//   structs of numbers, inside of these    their bytes (plain.h), unless they have traits of their own
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

#include "forklift/detail/caught.h"
#include "forklift/detail/value_base.h"
#include "forklift/detail/value_lists.h"

namespace forklift::inline abi_0_1 {

namespace detail {
// By what they can do, so that this header needs no other one's containers.
template <class M>
concept MapLike = requires(M& map, typename M::key_type key, typename M::mapped_type item) {
  map.insert_or_assign(std::move(key), std::move(item));
  map.begin();
};
template <class S>
concept SetLike = !MapLike<S> && requires(S& set, typename S::key_type key) {
  requires std::same_as<typename S::key_type, typename S::value_type>;
  set.insert(std::move(key));
  set.begin();
};
}  // namespace detail

template <>
struct ValueTraits<Value> {
  static Value from(const Value& value) { return value; }
};

template <>
struct ValueTraits<bool> {
  static bool from(const Value& value) {
    const bool* flag = value.get_if<bool>();
    if (flag == nullptr) detail::mismatch(value, "bool");
    return *flag;
  }
};

template <detail::Integer T>
struct ValueTraits<T> {
  static T from(const Value& value) {
    constexpr std::string_view kWanted = std::is_signed_v<T> ? "a signed integer" : "an unsigned integer";
    detail::Whole whole{};
    detail::match(detail::whole_number(value, kWanted, whole));
    const bool fits =
        whole.negative ? std::is_signed_v<T> && static_cast<std::int64_t>(whole.bits) >=
                                                    static_cast<std::int64_t>(std::numeric_limits<T>::min())
                       : whole.bits <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (!fits) detail::throw_mismatch(detail::out_of_range(value, kWanted));
    return static_cast<T>(whole.bits);
  }
};

template <>
struct ValueTraits<double> {
  static double from(const Value& value) {
    double number = 0;
    detail::match(detail::real_number(value, "double", number));
    return number;
  }
};

template <>
struct ValueTraits<float> {
  static float from(const Value& value) {
    double wide = 0;
    detail::match(detail::real_number(value, "float", wide));
    // What rounds to the largest float still is one; beyond, a finite number would become infinite.
    constexpr auto kMost = static_cast<double>(std::numeric_limits<float>::max());
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double size = wide < 0 ? -wide : wide;
    if (size > kMost && size < kInfinity) detail::throw_mismatch(detail::out_of_range(value, "float"));
    return static_cast<float>(wide);
  }
};

template <>
struct ValueTraits<std::string> {
  static std::string from(const Value& value) {
    const auto* text = value.get_if<std::string>();
    if (text == nullptr) detail::mismatch(value, "string");
    return *text;
  }
};

template <>
struct ValueTraits<Tensor> {
  static Tensor from(const Value& value) {
    const auto* tensor = value.get_if<Tensor>();
    if (tensor == nullptr) detail::mismatch(value, "tensor");
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
struct LosesNull : std::false_type {};
template <class T>
struct LosesNull<std::optional<T>> : MayBeNull<T> {};
template <class T>
constexpr void check_optional() {
  static_assert(!MayBeNull<T>::value,
                "forklift: an optional of what may be null itself (an optional, a forklift::Value) could "
                "arrive as an empty one; send a forklift::Value or a std::variant");
}
}  // namespace detail

template <class T>
struct ValueTraits<std::optional<T>> {
  template <bool Lend>
  static Value make(const std::optional<T>& object) {
    detail::check_optional<T>();
    return object ? detail::value_of<Lend>(*object) : Value();
  }
  static Value to(const std::optional<T>& object) { return make<false>(object); }
  static std::optional<T> from(const Value& value) {
    detail::check_optional<T>();
    if (value.is_null()) return std::optional<T>();
    return detail::value_as<T>(value);
  }
};

namespace detail {
template <class Tuple, std::size_t... I>
Tuple tuple_from(const Value::List& list, std::index_sequence<I...>) {
  return Tuple{
      value_as<std::tuple_element_t<I, Tuple>>(list[I])...};  // in braces: from the first to the last
}

template <class Tuple>
Tuple tuple_from(const Value& value) {
  constexpr std::size_t kSize = std::tuple_size_v<Tuple>;
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr || list->size() != kSize) {
    mismatch(value, "list of " + std::to_string(kSize));
  }
  return tuple_from<Tuple>(*list, std::make_index_sequence<kSize>());
}

template <bool Lend, class Tuple>
Value tuple_to(const Tuple& object) {
  Value::List list;
  list.reserve(std::tuple_size_v<Tuple>);
  std::apply([&](const auto&... items) { (list.push_back(value_of<Lend>(items)), ...); }, object);
  return list;
}

// Does iterating give the elements themselves, and no copies that are gone at once?
template <class C>
inline constexpr bool kHasElements = std::is_lvalue_reference_v<decltype(*std::declval<const C&>().begin())>;

// Can it be a key of a Value's map? What has many parts cannot. What a program's own traits make of a type is
// seen when it is sent.
template <class K>
    struct MayBeKey : std::bool_constant < !requires(const K& key) {
  ValueTraits<K>::template make<false>(key);
}>{};
template <class T>
struct MayBeKey<std::optional<T>> : MayBeKey<T> {};
template <BytesInARow T>
struct MayBeKey<std::vector<T>> : std::true_type {};
template <BytesInARow T, std::size_t N>
struct MayBeKey<std::array<T, N>> : std::true_type {};
template <class T>
struct MayBeKey<std::complex<T>> : std::false_type {};
template <>
struct MayBeKey<Tensor> : std::false_type {};

// With other keys: a list of pairs.
template <class M>
struct MapTraits : KnownHere {
  template <bool Lend>
  static Value make(const M& object) {
    constexpr bool kLend = Lend && kHasElements<M>;
    if constexpr (MayBeKey<typename M::key_type>::value) {
      Value::Map map;
      map.reserve(object.size());
      for (const auto& [key, item] : object) map.emplace_back(value_of<kLend>(key), value_of<kLend>(item));
      return map;
    } else {
      Value::List pairs;
      pairs.reserve(object.size());
      for (const auto& entry : object) pairs.push_back(tuple_to<kLend>(entry));
      return pairs;
    }
  }
  static Value to(const M& object) { return make<false>(object); }
  // Of equal keys the last one counts, as in a Python dict.
  static M from(const Value& value) {
    M object;
    if (const auto* map = value.get_if<Value::Map>()) {
      for (const auto& [key, item] : *map) {
        add(key, item, object);
      }
      return object;
    }
    const auto* pairs = MayBeKey<typename M::key_type>::value ? nullptr : value.get_if<Value::List>();
    if (pairs == nullptr) mismatch(value, "map");
    for (const Value& each : *pairs) {
      const auto* pair = each.get_if<Value::List>();
      if (pair == nullptr || pair->size() != 2) mismatch(each, "list of key and item");
      add((*pair)[0], (*pair)[1], object);
    }
    return object;
  }

 private:
  static void add(const Value& key, const Value& item, M& object) {
    auto k = value_as<typename M::key_type>(key);
    object.insert_or_assign(std::move(k), value_as<typename M::mapped_type>(item));
  }
};
}  // namespace detail

template <class A, class B>
struct ValueTraits<std::pair<A, B>> {
  template <bool Lend>
  static Value make(const std::pair<A, B>& object) {
    return detail::tuple_to<Lend>(object);
  }
  static Value to(const std::pair<A, B>& object) { return make<false>(object); }
  static std::pair<A, B> from(const Value& value) { return detail::tuple_from<std::pair<A, B>>(value); }
};

template <class... T>
struct ValueTraits<std::tuple<T...>> {
  template <bool Lend>
  static Value make(const std::tuple<T...>& object) {
    return detail::tuple_to<Lend>(object);
  }
  static Value to(const std::tuple<T...>& object) { return make<false>(object); }
  static std::tuple<T...> from(const Value& value) { return detail::tuple_from<std::tuple<T...>>(value); }
};

template <detail::MapLike M>
struct ValueTraits<M> : detail::MapTraits<M> {};

template <detail::SetLike S>
struct ValueTraits<S> : detail::KnownHere {
  template <bool Lend>
  static Value make(const S& object) {
    Value::List list;
    for (const auto& item : object)
      list.push_back(detail::value_of < Lend && detail::kHasElements < S >> (item));
    return list;
  }
  static Value to(const S& object) { return make<false>(object); }
  static S from(const Value& value) {
    std::vector<typename S::key_type> items;
    detail::append_elements<typename S::key_type>(value, items);
    S object;
    for (auto& item : items) object.insert(std::move(item));
    return object;
  }
};

template <>
struct ValueTraits<std::monostate> : detail::KnownHere {
  static Value to(const std::monostate&) { return {}; }
  static std::monostate from(const Value& value) {
    if (!value.is_null()) detail::mismatch(value, "null");
    return std::monostate();
  }
};

template <class... T>
struct ValueTraits<std::variant<T...>> {
  using Variant = std::variant<T...>;
  template <bool Lend>
  static Value make(const Variant& object) {
    return std::visit(
        [&](const auto& held) {
          return Value(Value::List{Value(std::uint64_t{object.index()}), detail::value_of<Lend>(held)});
        },
        object);
  }
  static Value to(const Variant& object) { return make<false>(object); }
  static Variant from(const Value& value) { return from(value, std::index_sequence_for<T...>()); }

 private:
  template <std::size_t I>
  static Variant alternative(const Value& value) {
    return Variant(std::in_place_index<I>, detail::value_as<std::variant_alternative_t<I, Variant>>(value));
  }
  template <std::size_t... I>
  static Variant from(const Value& value, std::index_sequence<I...>) {
    using Decode = Variant (*)(const Value&);
    static constexpr Decode kDecode[] = {&alternative<I>...};
    const auto* parts = value.get_if<Value::List>();
    if (parts == nullptr || parts->size() != 2) detail::mismatch(value, "a variant");
    const auto index = parts->front().template as<std::size_t>();
    if (index >= sizeof...(T))
      detail::throw_mismatch(detail::out_of_range(parts->front(), "the number of an alternative"));
    return kDecode[index](parts->back());
  }
};

template <class E>
  requires std::is_enum_v<E>
struct ValueTraits<E> : detail::KnownHere {
  using Number = std::underlying_type_t<E>;
  static Value to(const E& object) { return Value(static_cast<Number>(object)); }
  static E from(const Value& value) { return static_cast<E>(value.as<Number>()); }
};

template <detail::DurationLike D>
struct ValueTraits<D> : detail::KnownHere {
  static Value to(const D& object) { return Value(object.count()); }
  static D from(const Value& value) { return D(value.as<typename D::rep>()); }
};

template <detail::TimePointLike P>
struct ValueTraits<P> : detail::KnownHere {
  using Duration = typename P::duration;
  static Value to(const P& object) { return ValueTraits<Duration>::to(object.time_since_epoch()); }
  static P from(const Value& value) { return P(ValueTraits<Duration>::from(value)); }
};

namespace detail {
// What Value knows, both ways, and structs that are their bytes; of a container, whether it knows the
// elements.
template <class T>
concept BothWays = std::constructible_from<Value, const T&> && FromValue<T>;
template <class T>
struct KnownToValue : std::bool_constant<BothWays<T> || PlainBytes<T>> {};
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

}  // namespace forklift::inline abi_0_1
