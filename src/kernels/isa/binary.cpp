// Arithmetic and operations on bits, of two operands.
#include "kernels/isa/isa.h"
#include "kernels/isa/stream.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

template <class T>
T wrap(Wide<T> value) {
  return static_cast<T>(value);
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return {a.re + b.re, a.im + b.im};
    } else if constexpr (is_int<T>) {
      return wrap<T>(widen(a) + widen(b));
    } else {
      return a + b;
    }
  }
};

struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return {a.re - b.re, a.im - b.im};
    } else if constexpr (is_int<T>) {
      return wrap<T>(widen(a) - widen(b));
    } else {
      return a - b;
    }
  }
};

struct Multiply {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else if constexpr (is_int<T>) {
      return wrap<T>(widen(a) * widen(b));
    } else {
      return a * b;
    }
  }
};

struct Divide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_complex<T>) {
      // Smith's method (Communications of the ACM 5, 1962, algorithm 116), as in NumPy: no overflow in between.
      const auto re_abs = b.re < 0 ? -b.re : b.re;
      const auto im_abs = b.im < 0 ? -b.im : b.im;
      if (re_abs >= im_abs) {
        if (re_abs == 0 && im_abs == 0) return {a.re / re_abs, a.im / re_abs};
        const auto ratio = b.im / b.re;
        const auto scale = 1 / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
      }
      const auto ratio = b.re / b.im;
      const auto scale = 1 / (b.im + b.re * ratio);
      return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
    } else {
      return a / b;
    }
  }
};

template <class T>
T quotient_floor(T value) {
  if constexpr (sizeof(T) == 4) return __builtin_floorf(value);
  if constexpr (sizeof(T) == 8) return __builtin_floor(value);
}
template <class T>
T remainder_of(T a, T b) {
  if constexpr (sizeof(T) == 4) return __builtin_fmodf(a, b);
  if constexpr (sizeof(T) == 8) return __builtin_fmod(a, b);
}
template <class T>
T with_sign(T value, T sign) {
  if constexpr (sizeof(T) == 4) return __builtin_copysignf(value, sign);
  if constexpr (sizeof(T) == 8) return __builtin_copysign(value, sign);
}

// Python's: the remainder has the divisor's sign, and quotient * divisor + remainder is the dividend.
struct FloorDivide {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return wrap<T>(Wide<T>{0} - widen(a));
        const T quotient = static_cast<T>(a / b);
        return static_cast<T>(quotient - ((a % b != 0 && ((a < 0) != (b < 0))) ? 1 : 0));
      } else {
        return static_cast<T>(a / b);
      }
    } else {
      if (b == 0) return a / b;
      const T remainder = remainder_of(a, b);
      T quotient = (a - remainder) / b;
      if (remainder != 0 && ((b < 0) != (remainder < 0))) quotient -= 1;
      if (quotient == 0) return with_sign(T{0}, a / b);
      const T whole = quotient_floor(quotient);
      return quotient - whole > static_cast<T>(0.5) ? whole + 1 : whole;
    }
  }
};

struct Remainder {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_int<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T rest = static_cast<T>(a % b);
        return static_cast<T>(rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest);
      } else {
        return static_cast<T>(a % b);
      }
    } else {
      const T rest = remainder_of(a, b);
      if (b == 0) return rest;
      if (rest == 0) return with_sign(T{0}, b);
      return (b < 0) != (rest < 0) ? rest + b : rest;
    }
  }
};

// Of integers, by squaring. The caller has refused negative exponents.
struct IntegerPower {
  template <class T>
  static T apply(T a, T b) {
    Wide<T> base = widen(a);
    Wide<T> result = 1;
    for (auto exponent = static_cast<std::make_unsigned_t<T>>(b); exponent != 0;
         exponent = static_cast<std::make_unsigned_t<T>>(exponent >> 1)) {
      if ((exponent & 1) != 0) result *= base;
      base *= base;
    }
    return wrap<T>(result);
  }
};

// A NaN wins.
struct Maximum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_real<T>) {
      return a > b || __builtin_isnan(a) ? a : b;
    } else {
      return a > b ? a : b;
    }
  }
};
struct Minimum {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (is_real<T>) {
      return a < b || __builtin_isnan(a) ? a : b;
    } else {
      return a < b ? a : b;
    }
  }
};

struct Copysign {
  template <class T>
  static T apply(T a, T b) {
    return with_sign(a, b);
  }
};
struct Nextafter {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (sizeof(T) == 4) return __builtin_nextafterf(a, b);
    if constexpr (sizeof(T) == 8) return __builtin_nextafter(a, b);
  }
};

struct BitAnd {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// A shift by a negative number of bits, or by more than there are, shifts all of them out.
template <class T>
inline constexpr std::make_unsigned_t<T> kBits = sizeof(T) * 8;
struct ShiftLeft {
  template <class T>
  static T apply(T a, T b) {
    const auto by = static_cast<std::make_unsigned_t<T>>(b);
    return by < kBits<T> ? wrap<T>(widen(a) << by) : T{0};
  }
};
struct ShiftRight {
  template <class T>
  static T apply(T a, T b) {
    const auto by = static_cast<std::make_unsigned_t<T>>(b);
    if (by < kBits<T>) return static_cast<T>(a >> by);
    return static_cast<T>(a < 0 ? -1 : 0);
  }
};

struct BoolAnd {
  static Bool apply(Bool a, Bool b) { return {static_cast<std::uint8_t>(a.byte != 0 && b.byte != 0)}; }
};
struct BoolOr {
  static Bool apply(Bool a, Bool b) { return {static_cast<std::uint8_t>(a.byte != 0 || b.byte != 0)}; }
};
struct BoolXor {
  static Bool apply(Bool a, Bool b) { return {static_cast<std::uint8_t>((a.byte != 0) != (b.byte != 0))}; }
};

BinaryLoop of_bools(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMaximum:
    case BinaryOp::kBitwiseOr: return binary_loop<BoolOr, Bool, Bool>;
    case BinaryOp::kMultiply:
    case BinaryOp::kMinimum:
    case BinaryOp::kBitwiseAnd: return binary_loop<BoolAnd, Bool, Bool>;
    case BinaryOp::kBitwiseXor: return binary_loop<BoolXor, Bool, Bool>;
    default: return nullptr;
  }
}

template <class T>
BinaryLoop of_integers(BinaryOp op) {
  switch (op) {
    case BinaryOp::kFloorDivide: return binary_loop<FloorDivide, T, T>;
    case BinaryOp::kRemainder: return binary_loop<Remainder, T, T>;
    case BinaryOp::kPow: return binary_loop<IntegerPower, T, T>;
    case BinaryOp::kBitwiseAnd: return binary_loop<BitAnd, T, T>;
    case BinaryOp::kBitwiseOr: return binary_loop<BitOr, T, T>;
    case BinaryOp::kBitwiseXor: return binary_loop<BitXor, T, T>;
    case BinaryOp::kBitwiseLeftShift: return binary_loop<ShiftLeft, T, T>;
    case BinaryOp::kBitwiseRightShift: return binary_loop<ShiftRight, T, T>;
    default: return nullptr;
  }
}

template <class T>
BinaryLoop of_numbers(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return binary_loop<Add, T, T>;
    case BinaryOp::kSubtract: return binary_loop<Subtract, T, T>;
    case BinaryOp::kMultiply: return binary_loop<Multiply, T, T>;
    default: break;
  }
  if constexpr (!is_int<T>) {
    if (op == BinaryOp::kDivide) return binary_loop<Divide, T, T>;
  }
  if constexpr (!is_complex<T>) {
    if (op == BinaryOp::kMaximum) return binary_loop<Maximum, T, T>;
    if (op == BinaryOp::kMinimum) return binary_loop<Minimum, T, T>;
  }
  if constexpr (is_int<T>) return of_integers<T>(op);
  if constexpr (is_real<T>) {
    switch (op) {
      case BinaryOp::kFloorDivide: return binary_loop<FloorDivide, T, T>;
      case BinaryOp::kRemainder: return binary_loop<Remainder, T, T>;
      case BinaryOp::kCopysign: return binary_loop<Copysign, T, T>;
      case BinaryOp::kNextafter: return binary_loop<Nextafter, T, T>;
      default: break;
    }
  }
  return nullptr;
}

template <class T>
BinaryLoop streaming(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd: return binary_stream<Add, T>;
    case BinaryOp::kSubtract: return binary_stream<Subtract, T>;
    case BinaryOp::kMultiply: return binary_stream<Multiply, T>;
    case BinaryOp::kMaximum: return binary_stream<Maximum, T>;
    case BinaryOp::kMinimum: return binary_stream<Minimum, T>;
    case BinaryOp::kDivide:
      if constexpr (is_real<T>) return binary_stream<Divide, T>;
      return nullptr;
    default: return nullptr;
  }
}

}  // namespace

BinaryLoop streaming_binary(BinaryOp op, DType dtype) noexcept {
  return with_type(dtype, BinaryLoop(nullptr), [op](auto type) -> BinaryLoop {
    using T = typename decltype(type)::type;
    if constexpr (is_real<T> || (is_int<T> && sizeof(T) >= 4)) return streaming<T>(op);
    return nullptr;
  });
}

BinaryLoop binary(BinaryOp op, DType dtype) noexcept {
  if (is_comparison(op) || is_logical(op)) return compare(op, dtype);
  if (BinaryLoop const loop = math(op, dtype)) return loop;
  return with_type(dtype, BinaryLoop(nullptr), [op](auto type) -> BinaryLoop {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, Bool>) {
      return of_bools(op);
    } else {
      return of_numbers<T>(op);
    }
  });
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
