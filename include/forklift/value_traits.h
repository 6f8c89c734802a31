// How the standard library's types become a Value and come back; included by value.h.
//
//   bool, integers, float, double          the scalar of the same meaning
//   std::string, string_view               string (string_view only into a Value)
//   std::vector<std::byte / unsigned char> bytes (also from a list of small integers)
//   std::vector<T>, std::array<T, N>       list
//   std::pair, std::tuple                  list of that length
//   std::map, std::unordered_map           map
//   std::optional<T>                       null or the T
//   Tensor, Value                          themselves
//
// Thread and process safety, invariants: those of value.h. Conversions from a Value never lose anything
// without saying so, with one exception: a double becomes the nearest float.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forklift/value.h"

namespace forklift {

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
    if (std::isfinite(*wide) && std::abs(*wide) > static_cast<double>(std::numeric_limits<float>::max())) {
      return detail::out_of_range(value, "float");
    }
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

template <class T>
struct ValueTraits<std::optional<T>> {
  static Value to(const std::optional<T>& object) { return object ? Value(*object) : Value(); }
  static Result<std::optional<T>> from(const Value& value) {
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
struct MapTraits {
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

template <class K, class V, class Compare, class Allocator>
struct ValueTraits<std::map<K, V, Compare, Allocator>>
    : detail::MapTraits<std::map<K, V, Compare, Allocator>> {};

template <class K, class V, class Hash, class Equal, class Allocator>
struct ValueTraits<std::unordered_map<K, V, Hash, Equal, Allocator>>
    : detail::MapTraits<std::unordered_map<K, V, Hash, Equal, Allocator>> {};

}  // namespace forklift
