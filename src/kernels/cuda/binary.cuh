// Operations of two operands in device code: kernels/isa/binary.cpp, compare.cpp and math.cpp for one element at a time.
//
//   const double y = binary_of(BinaryOp::kFloorDivide, a, b, 64);
//
// Comparisons and logical operations have 0 or 1 in the operands' type. Integers are computed in 64 bits and wrap around
// when they are stored.
#pragma once

#include <cmath>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/unary.cuh"
#include "kernels/opcodes.h"

namespace forklift::kernels::cuda {

// Python's: the remainder has the divisor's sign, and quotient * divisor + remainder is the dividend. By zero: 0.
template <class T>
__device__ inline T integer_quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return negated(a);
    const T quotient = a / b;
    return quotient - ((a % b != 0 && ((a < 0) != (b < 0))) ? 1 : 0);
  } else {
    return a / b;
  }
}
template <class T>
__device__ inline T integer_remainder(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
  } else {
    return a % b;
  }
}
// By squaring. The caller has refused negative exponents.
template <class T>
__device__ inline T integer_power(T a, T b) {
  auto base = widen(a);
  auto result = widen(T{1});
  for (auto exponent = widen(b); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

// `bits` are those of the dtype. A shift by a negative number, or by more bits than there are, shifts all of them out.
template <class T>
__device__ inline T shifted_left(T a, T by, unsigned bits) {
  return widen(by) < bits ? static_cast<T>(widen(a) << by) : T{0};
}
template <class T>
__device__ inline T shifted_right(T a, T by, unsigned bits) {
  if (widen(by) < bits) return static_cast<T>(a >> by);
  return static_cast<T>(a < 0 ? -1 : 0);
}

template <class T>
__device__ inline T binary_of_integers(BinaryOp op, T a, T b, unsigned bits) {
  switch (op) {
    case BinaryOp::kFloorDivide: return integer_quotient(a, b);
    case BinaryOp::kRemainder: return integer_remainder(a, b);
    case BinaryOp::kPow: return integer_power(a, b);
    case BinaryOp::kBitwiseAnd: return static_cast<T>(a & b);
    case BinaryOp::kBitwiseOr: return static_cast<T>(a | b);
    case BinaryOp::kBitwiseXor: return static_cast<T>(a ^ b);
    case BinaryOp::kBitwiseLeftShift: return shifted_left(a, b, bits);
    case BinaryOp::kBitwiseRightShift: return shifted_right(a, b, bits);
    default: return a;
  }
}

template <class T>
__device__ inline T real_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T remainder = std::fmod(a, b);
  T quotient = (a - remainder) / b;
  if (remainder != 0 && ((b < 0) != (remainder < 0))) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > static_cast<T>(0.5) ? whole + 1 : whole;
}
template <class T>
__device__ inline T real_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  if (b == 0) return rest;
  if (rest == 0) return std::copysign(T{0}, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}
// max + log1p(exp(min - max)), which does not overflow.
template <class T>
__device__ inline T log_add_exp(T a, T b) {
  if (a == b) return a + static_cast<T>(0.693147180559945309417);  // also of equal infinities
  const T larger = a > b ? a : b;
  const T smaller = a > b ? b : a;
  const T distance = smaller - larger;
  return distance != distance ? a + b : larger + std::log1p(std::exp(distance));
}

template <class T>
__device__ inline T binary_of_reals(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kFloorDivide: return real_quotient(a, b);
    case BinaryOp::kRemainder: return real_remainder(a, b);
    case BinaryOp::kPow: return std::pow(a, b);
    case BinaryOp::kAtan2: return std::atan2(a, b);
    case BinaryOp::kHypot: return std::hypot(a, b);
    case BinaryOp::kCopysign: return std::copysign(a, b);
    case BinaryOp::kNextafter: return std::nextafter(a, b);
    case BinaryOp::kLogaddexp: return log_add_exp(a, b);
    default: return a;
  }
}

template <class T>
__device__ inline bool is_true(T a) {
  if constexpr (is_complex<T>) {
    return a.re != 0 || a.im != 0;
  } else {
    return a != 0;
  }
}

template <class T>
__device__ inline bool are_equal(T a, T b) {
  if constexpr (is_complex<T>) {
    return a.re == b.re && a.im == b.im;
  } else {
    return a == b;
  }
}

template <class T>
__device__ inline bool compared(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kEqual: return are_equal(a, b);
    case BinaryOp::kNotEqual: return !are_equal(a, b);
    case BinaryOp::kLogicalAnd: return is_true(a) && is_true(b);
    case BinaryOp::kLogicalOr: return is_true(a) || is_true(b);
    case BinaryOp::kLogicalXor: return is_true(a) != is_true(b);
    default: break;
  }
  if constexpr (!is_complex<T>) {
    switch (op) {
      case BinaryOp::kLess: return a < b;
      case BinaryOp::kLessEqual: return a <= b;
      case BinaryOp::kGreater: return a > b;
      case BinaryOp::kGreaterEqual: return a >= b;
      default: break;
    }
  }
  return false;
}

template <class T>
__device__ inline T sum_of(T a, T b) {
  if constexpr (is_complex<T>) {
    return {a.re + b.re, a.im + b.im};
  } else if constexpr (is_int<T>) {
    return static_cast<T>(widen(a) + widen(b));
  } else {
    return a + b;
  }
}
template <class T>
__device__ inline T difference_of(T a, T b) {
  return sum_of(a, negated(b));
}
template <class T>
__device__ inline T product_of(T a, T b) {
  if constexpr (is_complex<T>) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else if constexpr (is_int<T>) {
    // Of at least 32 bits: a narrower product could overflow an int.
    return static_cast<T>(std::uint64_t{1} * widen(a) * widen(b));
  } else {
    return a * b;
  }
}
// A NaN wins. `a != a` is false of every integer.
template <class T>
__device__ inline T larger_of(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
__device__ inline T smaller_of(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class T>
__device__ inline T binary_of(BinaryOp op, T a, T b, unsigned bits) {
  switch (op) {
    case BinaryOp::kAdd: return sum_of(a, b);
    case BinaryOp::kSubtract: return difference_of(a, b);
    case BinaryOp::kMultiply: return product_of(a, b);
    case BinaryOp::kDivide:
      if constexpr (is_complex<T>) return complex_quotient(a, b);
      if constexpr (is_real<T>) return a / b;
      return a;
    default: break;
  }
  if (is_comparison(op) || is_logical(op)) return truth_as<T>(compared(op, a, b));
  if constexpr (is_complex<T>) {
    return a;  // the host refuses powers of complex numbers
  } else {
    if (op == BinaryOp::kMaximum) return larger_of(a, b);
    if (op == BinaryOp::kMinimum) return smaller_of(a, b);
    if constexpr (is_real<T>) return binary_of_reals(op, a, b);
    if constexpr (is_int<T>) return binary_of_integers(op, a, b, bits);
  }
}

}  // namespace forklift::kernels::cuda
