// Operations of one operand but for the transcendental ones.
#include "kernels/isa/isa.h"
#include "kernels/isa/stream.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

struct Negative {
  template <class T>
  static T apply(T a) {
    if constexpr (is_complex<T>) {
      return {-a.re, -a.im};
    } else if constexpr (is_int<T>) {
      return static_cast<T>(Wide<T>{0} - widen(a));
    } else {
      return -a;
    }
  }
};

struct Positive {
  template <class T>
  static T apply(T a) {
    return a;
  }
};

template <class T>
T magnitude(T a) {
  if constexpr (sizeof(T) == 4) return __builtin_fabsf(a);
  if constexpr (sizeof(T) == 8) return __builtin_fabs(a);
}

struct Abs {
  template <class T>
  static auto apply(T a) {
    if constexpr (is_complex<T>) {
      if constexpr (sizeof(a.re) == 4) {
        return __builtin_hypotf(a.re, a.im);
      } else {
        return __builtin_hypot(a.re, a.im);
      }
    } else if constexpr (is_int<T>) {
      return a < 0 ? Negative::apply(a) : a;
    } else {
      return magnitude(a);
    }
  }
};

// Of a complex number z: z / |z|.
struct Sign {
  template <class T>
  static T apply(T a) {
    if constexpr (is_complex<T>) {
      const auto size = Abs::apply(a);
      if (size == 0) return {0, 0};
      return {a.re / size, a.im / size};
    } else if constexpr (is_int<T>) {
      return static_cast<T>((a > 0) - (a < 0));
    } else {
      return __builtin_isnan(a) ? a : static_cast<T>((a > 0) - (a < 0));
    }
  }
};

struct Square {
  template <class T>
  static T apply(T a) {
    if constexpr (is_complex<T>) {
      return {a.re * a.re - a.im * a.im, a.re * a.im + a.im * a.re};
    } else if constexpr (is_int<T>) {
      return static_cast<T>(widen(a) * widen(a));
    } else {
      return a * a;
    }
  }
};

struct Reciprocal {
  template <class T>
  static T apply(T a) {
    return 1 / a;
  }
};

struct Sqrt {
  static float apply(float a) { return __builtin_sqrtf(a); }
  static double apply(double a) { return __builtin_sqrt(a); }
};
struct Ceil {
  static float apply(float a) { return __builtin_ceilf(a); }
  static double apply(double a) { return __builtin_ceil(a); }
};
struct Floor {
  static float apply(float a) { return __builtin_floorf(a); }
  static double apply(double a) { return __builtin_floor(a); }
};
struct Trunc {
  static float apply(float a) { return __builtin_truncf(a); }
  static double apply(double a) { return __builtin_trunc(a); }
};
// Half-way cases go to the even number.
struct Round {
  static float apply(float a) { return __builtin_rintf(a); }
  static double apply(double a) { return __builtin_rint(a); }
  template <class Real>
  static Complex<Real> apply(Complex<Real> a) {
    return {apply(a.re), apply(a.im)};
  }
};

Bool as_bool(bool value) { return {static_cast<std::uint8_t>(value)}; }

struct IsNan {
  template <class T>
  static Bool apply(T a) {
    if constexpr (is_complex<T>) {
      return as_bool(__builtin_isnan(a.re) || __builtin_isnan(a.im));
    } else {
      return as_bool(__builtin_isnan(a));
    }
  }
};
struct IsFinite {
  template <class T>
  static Bool apply(T a) {
    if constexpr (is_complex<T>) {
      return as_bool(__builtin_isfinite(a.re) && __builtin_isfinite(a.im));
    } else {
      return as_bool(__builtin_isfinite(a));
    }
  }
};
struct IsInf {
  template <class T>
  static Bool apply(T a) {
    if constexpr (is_complex<T>) {
      return as_bool(magnitude(a.re) == __builtin_huge_val() || magnitude(a.im) == __builtin_huge_val());
    } else {
      return as_bool(magnitude(a) == static_cast<T>(__builtin_huge_val()));
    }
  }
};
struct Signbit {
  static Bool apply(float a) { return as_bool(__builtin_signbitf(a) != 0); }
  static Bool apply(double a) { return as_bool(__builtin_signbit(a) != 0); }
};
struct Always {
  template <class T>
  static Bool apply(T) {
    return {1};
  }
};
struct Never {
  template <class T>
  static Bool apply(T) {
    return {0};
  }
};

struct LogicalNot {
  template <class T>
  static Bool apply(T a) {
    if constexpr (is_complex<T>) {
      return as_bool(a.re == 0 && a.im == 0);
    } else if constexpr (std::is_same_v<T, Bool>) {
      return as_bool(a.byte == 0);
    } else {
      return as_bool(a == 0);
    }
  }
};

struct Invert {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_same_v<T, Bool>) {
      return as_bool(a.byte == 0);
    } else {
      return static_cast<T>(~a);
    }
  }
};

struct Real {
  template <class T>
  static auto apply(T a) {
    return a.re;
  }
};
struct Imag {
  template <class T>
  static auto apply(T a) {
    return a.im;
  }
};
struct Conj {
  template <class T>
  static T apply(T a) {
    return {a.re, -a.im};
  }
};

template <class T>
UnaryLoop of_reals(UnaryOp op) {
  switch (op) {
    case UnaryOp::kReciprocal: return unary_loop<Reciprocal, T, T>;
    case UnaryOp::kSqrt: return unary_loop<Sqrt, T, T>;
    case UnaryOp::kCeil: return unary_loop<Ceil, T, T>;
    case UnaryOp::kFloor: return unary_loop<Floor, T, T>;
    case UnaryOp::kTrunc: return unary_loop<Trunc, T, T>;
    case UnaryOp::kRound: return unary_loop<Round, T, T>;
    case UnaryOp::kSignbit: return unary_loop<Signbit, T, Bool>;
    default: return nullptr;
  }
}

template <class T>
UnaryLoop of_complex(UnaryOp op) {
  using Part = decltype(T::re);
  switch (op) {
    case UnaryOp::kReal: return unary_loop<Real, T, Part>;
    case UnaryOp::kImag: return unary_loop<Imag, T, Part>;
    case UnaryOp::kConj: return unary_loop<Conj, T, T>;
    case UnaryOp::kRound: return unary_loop<Round, T, T>;
    default: return complex_function(op, sizeof(T) == 8 ? DType::kComplex64 : DType::kComplex128);
  }
}

// Bools, integers and whatever has no rounding: every one of them is finite.
template <class T>
UnaryLoop of_whole(UnaryOp op) {
  switch (op) {
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf: return unary_loop<Never, T, Bool>;
    case UnaryOp::kIsFinite: return unary_loop<Always, T, Bool>;
    case UnaryOp::kBitwiseInvert: return unary_loop<Invert, T, T>;
    default: break;
  }
  if constexpr (is_int<T>) {
    switch (op) {
      case UnaryOp::kCeil:
      case UnaryOp::kFloor:
      case UnaryOp::kTrunc:
      case UnaryOp::kRound: return unary_loop<Positive, T, T>;
      default: break;
    }
  }
  return nullptr;
}

template <class T>
UnaryLoop of_numbers(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNegative: return unary_loop<Negative, T, T>;
    case UnaryOp::kPositive: return unary_loop<Positive, T, T>;
    case UnaryOp::kSign: return unary_loop<Sign, T, T>;
    case UnaryOp::kSquare: return unary_loop<Square, T, T>;
    case UnaryOp::kAbs:
      if constexpr (is_complex<T>) {
        return unary_loop<Abs, T, decltype(T::re)>;
      } else {
        return unary_loop<Abs, T, T>;
      }
    default: break;
  }
  if constexpr (!is_int<T>) {
    switch (op) {
      case UnaryOp::kIsNan: return unary_loop<IsNan, T, Bool>;
      case UnaryOp::kIsInf: return unary_loop<IsInf, T, Bool>;
      case UnaryOp::kIsFinite: return unary_loop<IsFinite, T, Bool>;
      default: break;
    }
  }
  if constexpr (is_complex<T>) return of_complex<T>(op);
  if constexpr (is_real<T>) return of_reals<T>(op);
  if constexpr (is_int<T>) return of_whole<T>(op);
  return nullptr;
}

template <class T>
UnaryLoop streaming(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNegative: return unary_stream<Negative, T>;
    case UnaryOp::kPositive: return unary_stream<Positive, T>;
    case UnaryOp::kSquare: return unary_stream<Square, T>;
    case UnaryOp::kAbs: return unary_stream<Abs, T>;
    case UnaryOp::kSqrt:
      if constexpr (is_real<T>) return unary_stream<Sqrt, T>;
      return nullptr;
    default: return nullptr;
  }
}

}  // namespace

UnaryLoop streaming_unary(UnaryOp op, DType dtype) noexcept {
  return with_type(dtype, UnaryLoop(nullptr), [op](auto type) -> UnaryLoop {
    using T = typename decltype(type)::type;
    if constexpr (is_real<T> || (is_int<T> && sizeof(T) >= 4)) return streaming<T>(op);
    return nullptr;
  });
}

UnaryLoop unary(UnaryOp op, DType dtype) noexcept {
  if (UnaryLoop const loop = math(op, dtype)) return loop;
  return with_type(dtype, UnaryLoop(nullptr), [op](auto type) -> UnaryLoop {
    using T = typename decltype(type)::type;
    if (op == UnaryOp::kLogicalNot) return unary_loop<LogicalNot, T, Bool>;
    if constexpr (std::is_same_v<T, Bool>) {
      return of_whole<T>(op);
    } else {
      return of_numbers<T>(op);
    }
  });
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
