// Value itself, without what makes it of other types; included by value.h, which is what programs use.
//
// Thread and process safety, invariants: those of value.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "forklift/detail/caught.h"
#include "forklift/detail/packed.h"
#include "forklift/detail/plain.h"
#include "forklift/error.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1 {

class Value;

// Lists and maps in one another: more is refused.
inline constexpr std::size_t kMaxValueDepth = 64;

// How a T becomes a Value and the reverse: `static Value to(const T&)` and `static T from(const Value&)`, which throws
// TypeMismatch. Those for the standard library's types are in value_traits.h.
template <class T>
struct ValueTraits;  // NOLINT(readability-redundant-declaration): packed.h has the first one

namespace detail {
// Does a Value know T, both ways? (value_traits.h)
template <class T>
struct KnownToValue;
// Numbers, not text: bool, the integers up to 64 bits, char as a small integer.
template <class T>
concept Integer = std::integral<T> && sizeof(T) <= 8 && !std::same_as<T, bool> && !std::same_as<T, wchar_t> &&
                  !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;
template <class T>
concept Real = std::same_as<T, float> || std::same_as<T, double>;
}  // namespace detail

template <class T>
concept ToValue = !std::same_as<T, Value> && requires(const T& object) {
  { ValueTraits<T>::to(object) } -> std::same_as<Value>;
};

template <class T>
concept FromValue = requires(const Value& value) {
  { ValueTraits<T>::from(value) } -> std::same_as<T>;
};

class Value {
 public:
  // What a Value may hold beside numbers and strings. A map keeps the order of its entries.
  using Bytes = std::vector<std::byte>;
  using List = std::vector<Value>;
  using Entry = std::pair<Value, Value>;
  using Map = std::vector<Entry>;

  // Which of these it holds.
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kInt,
    kUInt,
    kDouble,
    kString,
    kBytes,
    kList,
    kMap,
    kTensor,
  };

  Value() noexcept = default;
  // Null, as Value() is.
  Value(std::nullptr_t) noexcept {}
  // A template, so that a pointer is never taken for a bool.
  template <std::same_as<bool> T>
  Value(T flag) noexcept : rep_(flag) {}
  template <detail::Integer T>
  Value(T number) noexcept {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      if (number > static_cast<std::uint64_t>(INT64_MAX)) {
        rep_ = static_cast<std::uint64_t>(number);
        return;
      }
    }
    rep_ = static_cast<std::int64_t>(number);
  }
  template <detail::Real T>
  Value(T number) noexcept : rep_(static_cast<double>(number)) {}
  Value(const char* text) : rep_(std::string(text)) {}
  Value(std::string_view text) : rep_(std::string(text)) {}
  Value(std::string text) noexcept : rep_(std::move(text)) {}
  Value(Bytes bytes) noexcept : rep_(std::move(bytes)) {}
  Value(List list) noexcept : rep_(std::move(list)) {}
  Value(Map map) noexcept : rep_(std::move(map)) {}
  explicit Value(std::shared_ptr<const detail::Packed> packed) noexcept : rep_(std::move(packed)) {}
  Value(Tensor tensor) : rep_(std::make_shared<const Tensor>(std::move(tensor))) {}
  template <ToValue T>
  Value(const T& object) : Value(ValueTraits<T>::to(object)) {}

  // What it holds; scalars are all but lists, maps and tensors.
  Kind kind() const noexcept {
    if (const detail::Packed* items = packed()) return items->type().bytes ? Kind::kBytes : Kind::kList;
    return static_cast<Kind>(rep_.index());
  }
  bool is_null() const noexcept { return kind() == Kind::kNull; }
  bool is_scalar() const noexcept { return kind() <= Kind::kBytes; }

  // What is held, if it is exactly that: bool, int64_t, uint64_t, double, std::string, Bytes, List, Map or
  // Tensor.
  template <class T>
  const T* get_if() const noexcept(!std::same_as<T, List> && !std::same_as<T, Bytes>) {
    if constexpr (std::same_as<T, Tensor>) {
      const auto* box = std::get_if<std::shared_ptr<const Tensor>>(&rep_);
      return box != nullptr ? box->get() : nullptr;
    } else if constexpr (std::same_as<T, List>) {
      return packed() != nullptr ? packed()->list() : std::get_if<T>(&rep_);
    } else if constexpr (std::same_as<T, Bytes>) {
      return packed() != nullptr ? packed()->bytes() : std::get_if<T>(&rep_);
    } else {
      return std::get_if<T>(&rep_);
    }
  }
  template <class T>
    requires(!std::same_as<T, Tensor>)
  T* get_if() {
    if constexpr (std::same_as<T, List> || std::same_as<T, Bytes>) {
      if (packed() != nullptr) unpack();
    }
    return std::get_if<T>(&rep_);
  }
  // Its numbers or bytes in one piece, where it holds them so (packed.h); else null.
  const detail::Packed* packed() const noexcept {
    const auto* items = std::get_if<std::shared_ptr<const detail::Packed>>(&rep_);
    return items != nullptr ? items->get() : nullptr;
  }

  // The value as a T, if nothing is lost by it: an int of another width if it is in range, a double from an integer
  // that it represents, a vector from a list of what fits, ... TypeMismatch, with both types named, otherwise.
  template <class T>
  T as() const {
    static_assert(
        FromValue<T>,
        "forklift: a Value does not become this type; for a struct one line makes it known: template "
        "<> struct forklift::ValueTraits<T> : forklift::Fields<&T::a, &T::b> {};");
    if constexpr (FromValue<T>) {
      return ValueTraits<T>::from(*this);
    } else {
      std::terminate();  // never: so that one error is all that the compiler says
    }
  }
  // The same; nothing where as() throws TypeMismatch.
  template <class T>
  std::optional<T> try_as() const {
    std::optional<T> item;
    (void)detail::mismatch_in([&] { item.emplace(as<T>()); });
    return item;
  }

  // The value of the first equal key; null if there is none or this is no map.
  const Value* find(const Value& key) const noexcept;
  // The same; Error (kNotFound) where find() is null.
  const Value& at(const Value& key) const {
    const Value* const found = find(key);
    if (found == nullptr)
      detail::throw_status({Code::kNotFound, "a value without the key that was asked for"});
    return *found;
  }
  // Elements of a list, entries of a map, bytes of a string or of bytes; 0 of anything else.
  std::size_t size() const noexcept;

  // Equal kind and content; a double as in C++ (NaN differs from itself); tensors as Tensor::same_view.
  bool operator==(const Value& other) const noexcept;

 private:
  // What is packed becomes the list or bytes that it stands for.
  void unpack();

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Bytes, List, Map,
               std::shared_ptr<const Tensor>, std::shared_ptr<const detail::Packed>>
      rep_;
};

// "list", ...
std::string_view kind_name(Value::Kind kind) noexcept;

namespace detail {
// "a string where an int32 was wanted"
Status wrong_kind(const Value& value, std::string_view wanted);
Status out_of_range(const Value& value, std::string_view wanted);
// Integers as sign and magnitude-preserving pairs: exactly one of the two is set.
struct Whole {
  bool negative;
  std::uint64_t bits;  // two's complement where negative
};
Status whole_number(const Value& value, std::string_view wanted, Whole& number);
Status real_number(const Value& value, std::string_view wanted, double& number);

inline void match(const Status& status) {
  if (!status.ok()) throw_mismatch(status);
}
[[noreturn]] inline void mismatch(const Value& value, std::string_view wanted) {
  throw_mismatch(wrong_kind(value, wanted));
}
}  // namespace detail

}  // namespace forklift::inline abi_0_1
