// Unsigned integers that are ordered as elements are: what sorting and searching compare.
//
//   key_of(1.5F) < key_of(2.0F);                 // and every NaN is greater than any number
//   value_of<float>(exact_key_of(-0.0F));        // -0.0F: exact keys tell the two zeros apart, the others do not
//
// Complex numbers are ordered by their real parts, then by their imaginary parts; those with a NaN come last, as NumPy
// has them.
//
// Thread safety: pure functions.
#pragma once

#include <bit>
#include <cmath>
#include <compare>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/element_type.h"

namespace forklift::inline abi_0_1::ops {

// Of a complex number.
struct WideKey {
  std::uint64_t high;
  std::uint64_t low;
  auto operator<=>(const WideKey&) const = default;  // NOLINT(modernize-use-nullptr): the compiler's own
};

template <std::size_t bytes>
using UnsignedOf =
    std::conditional_t<bytes == 1, std::uint8_t,
                       std::conditional_t<bytes == 2, std::uint16_t,
                                          std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

template <class U>
inline constexpr U kTopBit = static_cast<U>(U{1} << (std::numeric_limits<U>::digits - 1));

template <class T>
inline constexpr bool is_float_v = std::is_floating_point_v<T> || is_narrow_v<T>;

template <class T>
bool is_nan(T value) noexcept {
  if constexpr (is_complex_v<T>) {
    return is_nan(value.real()) || is_nan(value.imag());
  } else if constexpr (is_narrow_v<T>) {
    return is_nan(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

// Of a real number or bool. The greatest key is that of NaN.
template <class T>
auto exact_key_of(T value) noexcept {
  using U = UnsignedOf<sizeof(T)>;
  if constexpr (is_float_v<T>) {
    if (is_nan(value)) return std::numeric_limits<U>::max();
    const U bits = std::bit_cast<U>(value);
    return static_cast<U>((bits & kTopBit<U>) != 0 ? ~bits : bits | kTopBit<U>);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<U>(static_cast<U>(value) ^ kTopBit<U>);
  } else {
    return static_cast<U>(value);
  }
}

// The element with that exact key.
template <class T>
T value_of(UnsignedOf<sizeof(T)> key) noexcept {
  using U = UnsignedOf<sizeof(T)>;
  if constexpr (is_float_v<T>) {
    if (key == std::numeric_limits<U>::max()) {
      if constexpr (is_narrow_v<T>) {
        return T(std::numeric_limits<float>::quiet_NaN());
      } else {
        return std::numeric_limits<T>::quiet_NaN();
      }
    }
    return std::bit_cast<T>(static_cast<U>((key & kTopBit<U>) != 0 ? key ^ kTopBit<U> : ~key));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(key ^ kTopBit<U>);
  } else {
    return static_cast<T>(key);
  }
}

// The same, but equal for the two zeros.
template <class T>
auto real_key_of(T value) noexcept {
  if constexpr (is_float_v<T>) {
    using U = UnsignedOf<sizeof(T)>;
    return std::bit_cast<U>(value) == kTopBit<U> ? kTopBit<U> : exact_key_of(value);
  } else {
    return exact_key_of(value);
  }
}

// Of any element. Equal for equal elements.
template <class T>
auto key_of(T value) noexcept {
  if constexpr (is_complex_v<T>) {
    constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t real = real_key_of(static_cast<double>(value.real()));
    const std::uint64_t imag = real_key_of(static_cast<double>(value.imag()));
    // A NaN in the imaginary part alone comes before one in the real part.
    if (is_nan(value.imag()) && !is_nan(value.real())) return WideKey{kLast - 1, real};
    return WideKey{real, imag};
  } else {
    return real_key_of(value);
  }
}

template <class T>
using KeyOf = decltype(key_of(T{}));

// In descending order NaN stays the last.
template <class T, class Key>
Key descending_key(Key key, T value) noexcept {
  if (is_nan(value)) return key;
  if constexpr (std::is_same_v<Key, WideKey>) {
    return WideKey{~key.high, ~key.low};
  } else {
    return static_cast<Key>(~key);
  }
}

}  // namespace forklift::inline abi_0_1::ops
