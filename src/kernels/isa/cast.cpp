// Conversions between dtypes, and the choice between two arrays.
#include "kernels/isa/isa.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

template <class From, class To>
To converted(From value) {
  if constexpr (std::is_same_v<From, Bool>) {
    return converted<std::uint8_t, To>(static_cast<std::uint8_t>(value.byte != 0));
  } else if constexpr (is_complex<From>) {
    if constexpr (is_complex<To>) {
      using Part = decltype(To::re);
      return {static_cast<Part>(value.re), static_cast<Part>(value.im)};
    } else if constexpr (std::is_same_v<To, Bool>) {
      return {static_cast<std::uint8_t>(value.re != 0 || value.im != 0)};
    } else {
      return converted<decltype(From::re), To>(value.re);  // the imaginary part is dropped, as NumPy does
    }
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(value != 0)};
  } else if constexpr (is_complex<To>) {
    return {static_cast<decltype(To::re)>(value), 0};
  } else if constexpr (is_real<From> && is_int<To>) {
    // What does not fit has no value in C++. It becomes the smallest integer of 32 or 64 bits, as with NumPy on x86-64,
    // and narrower integers are the lower bits of that.
    if constexpr (std::is_same_v<To, std::uint64_t>) {
      if (value >= static_cast<From>(9223372036854775808.0)) {
        if (!(value < static_cast<From>(18446744073709551616.0))) return std::uint64_t{1} << 63;
        return static_cast<std::uint64_t>(
                   static_cast<std::int64_t>(value - static_cast<From>(9223372036854775808.0))) ^
               (std::uint64_t{1} << 63);
      }
    }
    if constexpr (sizeof(To) == 8 || std::is_same_v<To, std::uint32_t>) {
      const bool fits = value >= static_cast<From>(-9223372036854775808.0) &&
                        value < static_cast<From>(9223372036854775808.0);
      return static_cast<To>(fits ? static_cast<std::int64_t>(value) : INT64_MIN);
    } else {
      const bool fits = value >= static_cast<From>(-2147483648.0) && value < static_cast<From>(2147483648.0);
      return static_cast<To>(fits ? static_cast<std::int32_t>(value) : INT32_MIN);
    }
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
struct Convert {
  static To apply(From value) { return converted<From, To>(value); }
};

template <class From>
UnaryLoop cast_from(DType to) {
  return with_type(to, UnaryLoop(nullptr), [](auto type) -> UnaryLoop {
    using To = typename decltype(type)::type;
    return unary_loop<Convert<From, To>, From, To>;
  });
}

// Sixteen-bit floats go through float32, whose functions are in forklift/dtype.h. They are read as their bits here.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

#if defined(__F16C__)
float to_float(Half value) { return _cvtsh_ss(value.bits); }
Half narrow(float value, Half) { return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)}; }
#else
float bits_to_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
float to_float(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return bits_to_float(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  // The exponent moves, and a product with 2^112 sets its bias right, of subnormals, too.
  return bits_to_float(sign | (rest << 13)) * 0x1p112f;
}
Half narrow(float value, Half) { return {forklift::detail::float_to_half(value)}; }
#endif

float to_float(Brain value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}
Brain narrow(float value, Brain) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <class From, class To>
struct Widen {
  static To apply(From value) { return converted<float, To>(to_float(value)); }
};
template <class From, class To>
struct Narrow {
  // Through double an integer would be rounded once instead of twice; NumPy rounds twice, too.
  static To apply(From value) { return narrow(converted<From, float>(value), To{}); }
};
template <class From, class To>
struct Exchange {
  static To apply(From value) { return narrow(to_float(value), To{}); }
};
struct Same {
  template <class T>
  static T apply(T value) {
    return value;
  }
};

template <class From, class Other>
UnaryLoop cast_from_narrow(DType to, DType own, DType other) {
  if (to == own) return unary_loop<Same, From, From>;
  if (to == other) return unary_loop<Exchange<From, Other>, From, Other>;
  return with_type(to, UnaryLoop(nullptr), [](auto type) -> UnaryLoop {
    using To = typename decltype(type)::type;
    return unary_loop<Widen<From, To>, From, To>;
  });
}

template <class To>
UnaryLoop cast_to_narrow(DType from) {
  return with_type(from, UnaryLoop(nullptr), [](auto type) -> UnaryLoop {
    using From = typename decltype(type)::type;
    return unary_loop<Narrow<From, To>, From, To>;
  });
}

template <std::size_t size>
struct Item {
  std::uint64_t words[size / 8];
};
template <>
struct Item<1> {
  std::uint8_t byte;
};
template <>
struct Item<2> {
  std::uint16_t bits;
};
template <>
struct Item<4> {
  std::uint32_t bits;
};

template <std::size_t size>
void select_loop(const std::byte* mask, std::ptrdiff_t mask_step, const std::byte* a, std::ptrdiff_t a_step,
                 const std::byte* b, std::ptrdiff_t b_step, std::byte* out, std::ptrdiff_t out_step,
                 std::ptrdiff_t count) {
  using T = Item<size>;
  // Of complex numbers the alignment is that of their parts.
  struct __attribute__((packed, aligned(size < 8 ? size : 4))) Loose {
    T item;
  };
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::byte* const from = at<Bool>(mask, i * mask_step).byte != 0 ? a + i * a_step : b + i * b_step;
    at<Loose>(out, i * out_step) = at<Loose>(from, 0);
  }
}

}  // namespace

UnaryLoop cast(DType from, DType to) noexcept {
  if (from == DType::kFloat16) return cast_from_narrow<Half, Brain>(to, DType::kFloat16, DType::kBFloat16);
  if (from == DType::kBFloat16) return cast_from_narrow<Brain, Half>(to, DType::kBFloat16, DType::kFloat16);
  if (to == DType::kFloat16) return cast_to_narrow<Half>(from);
  if (to == DType::kBFloat16) return cast_to_narrow<Brain>(from);
  return with_type(from, UnaryLoop(nullptr),
                   [to](auto type) -> UnaryLoop { return cast_from<typename decltype(type)::type>(to); });
}

SelectLoop select(std::size_t item_size) noexcept {
  switch (item_size) {
    case 1: return select_loop<1>;
    case 2: return select_loop<2>;
    case 4: return select_loop<4>;
    case 8: return select_loop<8>;
    case 16: return select_loop<16>;
    default: return nullptr;
  }
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
