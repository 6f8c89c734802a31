// Transcendental functions of floats and doubles: as many at once as a vector holds where the C library has a function
// for it (kernels/vector_math.h), else one by one.
#include <math.h>

#include "kernels/isa/isa.h"
#include "kernels/isa/lanes.h"
#include "kernels/vector_math.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

#if defined(__AVX512F__)
inline constexpr bool kVectors = true;
inline constexpr bool kAvx512 = true;
#elif defined(__AVX2__)
inline constexpr bool kVectors = true;
inline constexpr bool kAvx512 = false;
#else
inline constexpr bool kVectors = false;
inline constexpr bool kAvx512 = false;
#endif

template <class T>
using OneFunction = T (*)(T);
template <class T>
using TwoFunction = T (*)(T, T);

struct UnaryRow {
  UnaryOp op;
  const char* name;
  OneFunction<float> f32;
  OneFunction<double> f64;
};

constexpr UnaryRow kUnary[] = {
    {UnaryOp::kExp, "exp", ::expf, ::exp},         {UnaryOp::kExp2, "exp2", ::exp2f, ::exp2},
    {UnaryOp::kExpm1, "expm1", ::expm1f, ::expm1}, {UnaryOp::kLog, "log", ::logf, ::log},
    {UnaryOp::kLog2, "log2", ::log2f, ::log2},     {UnaryOp::kLog10, "log10", ::log10f, ::log10},
    {UnaryOp::kLog1p, "log1p", ::log1pf, ::log1p}, {UnaryOp::kSin, "sin", ::sinf, ::sin},
    {UnaryOp::kCos, "cos", ::cosf, ::cos},         {UnaryOp::kTan, "tan", ::tanf, ::tan},
    {UnaryOp::kAsin, "asin", ::asinf, ::asin},     {UnaryOp::kAcos, "acos", ::acosf, ::acos},
    {UnaryOp::kAtan, "atan", ::atanf, ::atan},     {UnaryOp::kSinh, "sinh", ::sinhf, ::sinh},
    {UnaryOp::kCosh, "cosh", ::coshf, ::cosh},     {UnaryOp::kTanh, "tanh", ::tanhf, ::tanh},
    {UnaryOp::kAsinh, "asinh", ::asinhf, ::asinh}, {UnaryOp::kAcosh, "acosh", ::acoshf, ::acosh},
    {UnaryOp::kAtanh, "atanh", ::atanhf, ::atanh}, {UnaryOp::kCbrt, "cbrt", ::cbrtf, ::cbrt},
    {UnaryOp::kErf, "erf", ::erff, ::erf},
};
constexpr int kUnaryCount = sizeof kUnary / sizeof kUnary[0];

struct BinaryRow {
  BinaryOp op;
  const char* name;
  TwoFunction<float> f32;
  TwoFunction<double> f64;
};

constexpr BinaryRow kBinary[] = {
    {BinaryOp::kPow, "pow", ::powf, ::pow},
    {BinaryOp::kAtan2, "atan2", ::atan2f, ::atan2},
    {BinaryOp::kHypot, "hypot", ::hypotf, ::hypot},
};
constexpr int kBinaryCount = sizeof kBinary / sizeof kBinary[0];

template <class T, class Row>
constexpr auto scalar_of(const Row& row) {
  if constexpr (sizeof(T) == 4) {
    return row.f32;
  } else {
    return row.f64;
  }
}

template <int index, class T>
void unary_math(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
                std::ptrdiff_t count) {
  if constexpr (kVectors) {
    using Function = Vector<T> (*)(Vector<T>);
    static const auto function =
        reinterpret_cast<Function>(vector_function(kUnary[index].name, sizeof(T) == 8, kAvx512, 1));
    if (function != nullptr) {
      for (std::ptrdiff_t i = 0; i < count; i += kLanes<T>) {
        const std::ptrdiff_t lanes = lanes_left<T>(count - i);
        scatter<T>(function(gather<T>(in + i * in_step, in_step, lanes)), out + i * out_step, out_step,
                   lanes);
      }
      return;
    }
  }
  constexpr auto function = scalar_of<T>(kUnary[index]);
  for (std::ptrdiff_t i = 0; i < count; ++i) at<T>(out, i * out_step) = function(at<T>(in, i * in_step));
}

template <int index, class T>
void binary_math(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step,
                 std::byte* out, std::ptrdiff_t out_step, std::ptrdiff_t count) {
  if constexpr (kVectors) {
    using Function = Vector<T> (*)(Vector<T>, Vector<T>);
    static const auto function =
        reinterpret_cast<Function>(vector_function(kBinary[index].name, sizeof(T) == 8, kAvx512, 2));
    if (function != nullptr) {
      for (std::ptrdiff_t i = 0; i < count; i += kLanes<T>) {
        const std::ptrdiff_t lanes = lanes_left<T>(count - i);
        scatter<T>(
            function(gather<T>(a + i * a_step, a_step, lanes), gather<T>(b + i * b_step, b_step, lanes)),
            out + i * out_step, out_step, lanes);
      }
      return;
    }
  }
  constexpr auto function = scalar_of<T>(kBinary[index]);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    at<T>(out, i * out_step) = function(at<T>(a, i * a_step), at<T>(b, i * b_step));
  }
}

// log(exp(a) + exp(b)) = max + log1p(exp(min - max)), which does not overflow.
template <class T>
T log_add_exp(T a, T b) {
  if (a == b) return a + static_cast<T>(M_LN2);  // also of equal infinities, whose difference is no number
  const T larger = a > b ? a : b;
  const T smaller = a > b ? b : a;
  if (__builtin_isnan(smaller - larger)) return a + b;
  if constexpr (sizeof(T) == 4) {
    return larger + ::log1pf(::expf(smaller - larger));
  } else {
    return larger + ::log1p(::exp(smaller - larger));
  }
}

template <class T>
void log_add_exp_loop(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step,
                      std::byte* out, std::ptrdiff_t out_step, std::ptrdiff_t count) {
  if constexpr (kVectors) {
    using Function = Vector<T> (*)(Vector<T>);
    static const auto exp = reinterpret_cast<Function>(vector_function("exp", sizeof(T) == 8, kAvx512, 1));
    static const auto log1p =
        reinterpret_cast<Function>(vector_function("log1p", sizeof(T) == 8, kAvx512, 1));
    if (exp != nullptr && log1p != nullptr) {
      for (std::ptrdiff_t i = 0; i < count; i += kLanes<T>) {
        const std::ptrdiff_t lanes = lanes_left<T>(count - i);
        const Vector<T> left = gather<T>(a + i * a_step, a_step, lanes);
        const Vector<T> right = gather<T>(b + i * b_step, b_step, lanes);
        const Vector<T> larger = left > right ? left : right;
        const Vector<T> difference = (left > right ? right : left) - larger;
        Vector<T> result = larger + log1p(exp(difference));
        result = difference != difference ? left + right : result;  // NOLINT(misc-redundant-expression): NaN
        result = left == right ? left + static_cast<T>(M_LN2) : result;
        scatter<T>(result, out + i * out_step, out_step, lanes);
      }
      return;
    }
  }
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    at<T>(out, i * out_step) = log_add_exp(at<T>(a, i * a_step), at<T>(b, i * b_step));
  }
}

template <class T, int index = 0>
UnaryLoop find_unary(UnaryOp op) {
  if constexpr (index == kUnaryCount) {
    return nullptr;
  } else {
    return kUnary[index].op == op ? unary_math<index, T> : find_unary<T, index + 1>(op);
  }
}

template <class T, int index = 0>
BinaryLoop find_binary(BinaryOp op) {
  if constexpr (index == kBinaryCount) {
    return op == BinaryOp::kLogaddexp ? log_add_exp_loop<T> : nullptr;
  } else {
    return kBinary[index].op == op ? binary_math<index, T> : find_binary<T, index + 1>(op);
  }
}

}  // namespace

UnaryLoop math(UnaryOp op, DType dtype) noexcept {
  if (op == UnaryOp::kTanh && dtype == DType::kFloat32) return tanh_loop;
  if (dtype == DType::kFloat32) return find_unary<float>(op);
  if (dtype == DType::kFloat64) return find_unary<double>(op);
  return nullptr;
}

BinaryLoop math(BinaryOp op, DType dtype) noexcept {
  if (dtype == DType::kFloat32) return find_binary<float>(op);
  if (dtype == DType::kFloat64) return find_binary<double>(op);
  if (op == BinaryOp::kPow && (dtype == DType::kComplex64 || dtype == DType::kComplex128))
    return complex_power(dtype);
  return nullptr;
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
