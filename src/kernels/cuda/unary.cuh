// Operations of one operand in device code: kernels/isa/unary.cpp and math.cpp for one element at a time.
//
//   const double y = unary_of(UnaryOp::kExp, x);
//
// What answers with a bool has 0 or 1 in the operand's type, and what answers with the part of a complex number has it
// in the real part; the result is converted when it is stored.
#pragma once

#include <cmath>

#include "kernels/cuda/element.cuh"
#include "kernels/opcodes.h"

namespace forklift::kernels::cuda {

template <class T>
__device__ inline T truth_as(bool value) {
  if constexpr (is_complex<T>) {
    return {value ? decltype(T::re)(1) : decltype(T::re)(0), 0};
  } else {
    return value ? T(1) : T(0);
  }
}

template <class T>
__device__ inline T negated(T a) {
  if constexpr (is_complex<T>) {
    return {-a.re, -a.im};
  } else if constexpr (is_int<T>) {
    return static_cast<T>(0 - widen(a));
  } else {
    return -a;
  }
}

template <class T>
__device__ inline T unary_of_integer(UnaryOp op, T a) {
  switch (op) {
    case UnaryOp::kNegative: return negated(a);
    case UnaryOp::kAbs: return a < 0 ? negated(a) : a;
    case UnaryOp::kSign: return static_cast<T>((a > 0) - (a < 0));
    case UnaryOp::kSquare: return static_cast<T>(widen(a) * widen(a));
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf: return 0;
    case UnaryOp::kIsFinite: return 1;
    case UnaryOp::kLogicalNot: return truth_as<T>(a == 0);
    case UnaryOp::kBitwiseInvert: return static_cast<T>(~a);
    default: return a;  // positive, and what rounds
  }
}

template <class T>
__device__ inline T unary_of_real(UnaryOp op, T a) {
  switch (op) {
    case UnaryOp::kNegative: return -a;
    case UnaryOp::kAbs: return std::fabs(a);
    case UnaryOp::kSign: return a != a ? a : static_cast<T>((a > 0) - (a < 0));
    case UnaryOp::kSquare: return a * a;
    case UnaryOp::kReciprocal: return 1 / a;
    case UnaryOp::kSqrt: return std::sqrt(a);
    case UnaryOp::kExp: return std::exp(a);
    case UnaryOp::kExp2: return std::exp2(a);
    case UnaryOp::kExpm1: return std::expm1(a);
    case UnaryOp::kLog: return std::log(a);
    case UnaryOp::kLog2: return std::log2(a);
    case UnaryOp::kLog10: return std::log10(a);
    case UnaryOp::kLog1p: return std::log1p(a);
    case UnaryOp::kSin: return std::sin(a);
    case UnaryOp::kCos: return std::cos(a);
    case UnaryOp::kTan: return std::tan(a);
    case UnaryOp::kAsin: return std::asin(a);
    case UnaryOp::kAcos: return std::acos(a);
    case UnaryOp::kAtan: return std::atan(a);
    case UnaryOp::kSinh: return std::sinh(a);
    case UnaryOp::kCosh: return std::cosh(a);
    case UnaryOp::kTanh: return std::tanh(a);
    case UnaryOp::kAsinh: return std::asinh(a);
    case UnaryOp::kAcosh: return std::acosh(a);
    case UnaryOp::kAtanh: return std::atanh(a);
    case UnaryOp::kCbrt: return std::cbrt(a);
    case UnaryOp::kErf: return std::erf(a);
    case UnaryOp::kCeil: return std::ceil(a);
    case UnaryOp::kFloor: return std::floor(a);
    case UnaryOp::kTrunc: return std::trunc(a);
    case UnaryOp::kRound: return std::rint(a);  // half-way cases go to the even number
    case UnaryOp::kIsNan: return truth_as<T>(a != a);
    case UnaryOp::kIsInf: return truth_as<T>(a - a != 0 && a == a);
    case UnaryOp::kIsFinite: return truth_as<T>(a - a == 0);
    case UnaryOp::kSignbit: return truth_as<T>(std::copysign(T(1), a) < 0);
    case UnaryOp::kLogicalNot: return truth_as<T>(a == 0);
    default: return a;
  }
}

// Smith's method (Communications of the ACM 5, 1962, algorithm 116): no overflow in between.
template <class T>
__device__ inline T complex_quotient(T a, T b) {
  if (std::fabs(b.re) >= std::fabs(b.im)) {
    if (b.re == 0 && b.im == 0) return {a.re / std::fabs(b.re), a.im / std::fabs(b.re)};
    const auto ratio = b.im / b.re;
    const auto scale = 1 / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const auto ratio = b.re / b.im;
  const auto scale = 1 / (b.im + b.re * ratio);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

template <class T>
__device__ inline T complex_sqrt(T a) {
  using Part = decltype(T::re);
  if (a.re == 0 && a.im == 0) return {0, a.im};
  if (a.im - a.im != 0 && a.im == a.im) return {std::fabs(a.im), a.im};  // infinite
  const Part size = std::sqrt((std::fabs(a.re) + std::hypot(a.re, a.im)) / 2);
  if (a.re >= 0) return {size, a.im / (2 * size)};
  return {std::fabs(a.im) / (2 * size), std::copysign(size, a.im)};
}

template <class T>
__device__ inline T complex_log(T a) {
  return {std::log(std::hypot(a.re, a.im)), std::atan2(a.im, a.re)};
}
template <class T, class Part>
__device__ inline T scaled(T a, Part by) {
  return {a.re * by, a.im * by};
}

// The host refuses the functions that are missing here (is_on_gpu in kernels/cuda/launcher.h).
template <class T>
__device__ inline T unary_of_complex(UnaryOp op, T a) {
  using Part = decltype(T::re);
  switch (op) {
    case UnaryOp::kNegative: return negated(a);
    case UnaryOp::kAbs: return {std::hypot(a.re, a.im), 0};
    case UnaryOp::kSign: {
      const Part size = std::hypot(a.re, a.im);
      if (size == 0) return {0, 0};
      return {a.re / size, a.im / size};
    }
    case UnaryOp::kSquare: return {a.re * a.re - a.im * a.im, a.re * a.im + a.im * a.re};
    case UnaryOp::kReciprocal: return complex_quotient(T{1, 0}, a);
    case UnaryOp::kSqrt: return complex_sqrt(a);
    case UnaryOp::kExp: {
      const Part size = std::exp(a.re);
      if (a.im == 0) return {size, a.im};
      return {size * std::cos(a.im), size * std::sin(a.im)};
    }
    case UnaryOp::kLog: return complex_log(a);
    case UnaryOp::kLog2: return scaled(complex_log(a), static_cast<Part>(1.4426950408889634074));
    case UnaryOp::kLog10: return scaled(complex_log(a), static_cast<Part>(0.43429448190325182765));
    case UnaryOp::kRound: return {std::rint(a.re), std::rint(a.im)};
    case UnaryOp::kIsNan: return truth_as<T>(a.re != a.re || a.im != a.im);
    case UnaryOp::kIsInf:
      return truth_as<T>((a.re - a.re != 0 && a.re == a.re) || (a.im - a.im != 0 && a.im == a.im));
    case UnaryOp::kIsFinite: return truth_as<T>(a.re - a.re == 0 && a.im - a.im == 0);
    case UnaryOp::kLogicalNot: return truth_as<T>(a.re == 0 && a.im == 0);
    case UnaryOp::kImag: return {a.im, 0};
    case UnaryOp::kConj: return {a.re, -a.im};
    default: return a;  // positive, and the real part, which is what is stored
  }
}

template <class T>
__device__ inline T unary_of(UnaryOp op, T a) {
  if constexpr (is_complex<T>) {
    return unary_of_complex(op, a);
  } else if constexpr (is_real<T>) {
    return unary_of_real(op, a);
  } else {
    return unary_of_integer(op, a);
  }
}

}  // namespace forklift::kernels::cuda
