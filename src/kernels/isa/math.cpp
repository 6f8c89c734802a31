// Transcendental functions of floats and doubles: as many at once as a vector holds where the C library has a function
// for it (kernels/vector_math.h), else one by one.
#include <math.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "kernels/isa/isa.h"
#include "kernels/vector_math.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

#if defined(__AVX512F__)
inline constexpr bool kVectors = true;
inline constexpr bool kAvx512 = true;
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr bool kVectors = true;
inline constexpr bool kAvx512 = false;
inline constexpr int kVectorBytes = 32;
#else
inline constexpr bool kVectors = false;
inline constexpr bool kAvx512 = false;
inline constexpr int kVectorBytes = 16;
#endif

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
[[maybe_unused]] inline constexpr std::ptrdiff_t kLanes =
    kVectorBytes / static_cast<std::ptrdiff_t>(sizeof(T));

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

// Fills a vector from `count` elements at a distance; what is left over repeats the first, which costs nothing extra
// and raises no floating-point exception that the elements do not.
template <class T>
Vector<T> gather(const std::byte* from, std::ptrdiff_t step, std::ptrdiff_t count) {
  Vector<T> vector;
  if (step == kStep<T> && count == kLanes<T>) {
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
  }
  for (std::ptrdiff_t i = 0; i < kLanes<T>; ++i) vector[i] = at<T>(from, (i < count ? i : 0) * step);
  return vector;
}

template <class T>
void scatter(const Vector<T>& vector, std::byte* to, std::ptrdiff_t step, std::ptrdiff_t count) {
  if (step == kStep<T> && count == kLanes<T>) {
    __builtin_memcpy(to, &vector, sizeof vector);
    return;
  }
  for (std::ptrdiff_t i = 0; i < count; ++i) at<T>(to, i * step) = vector[i];
}

template <class T>
std::ptrdiff_t lanes_left(std::ptrdiff_t left) {
  return left < kLanes<T> ? left : kLanes<T>;
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

// Of floats, by a rational approximation that stays in vectors: x P(x^2) / Q(x^2), which is off by 5 units in the last
// place at most (7 without fused multiply-add). Coefficients: Eigen's generic_fast_tanh_float (MathFunctionsImpl.h, 3.4).
struct Tanh {
  static constexpr float kLargest = 7.90531110763549805F;  // of the approximation
  static constexpr float kOne = 9.02F;                     // from here on, the result is rounded to 1
  static constexpr float kSmallest = 0.0004F;              // below, it is x
  static constexpr float kP[] = {-2.76076847742355e-16F, 2.00018790482477e-13F, -8.60467152213735e-11F,
                                 5.12229709037114e-08F,  1.48572235717979e-05F, 6.37261928875436e-04F,
                                 4.89352455891786e-03F};
  static constexpr float kQ[] = {1.19825839466702e-06F, 1.18534705686654e-04F, 2.26843463243900e-03F,
                                 4.89352518554385e-03F};

  static float multiply_add(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
  }

  template <std::size_t count>
  static float polynomial(const float (&coefficients)[count], float x) {
    float value = coefficients[0];
    for (std::size_t i = 1; i < count; ++i) value = multiply_add(value, x, coefficients[i]);
    return value;
  }

  static float apply(float x) {
    const float clipped = x > kLargest ? kLargest : x < -kLargest ? -kLargest : x;
    const float square = clipped * clipped;
    float result = clipped * polynomial(kP, square) / polynomial(kQ, square);
    result = x < kSmallest && x > -kSmallest ? x : result;
    result = x >= kOne ? 1.0F : result;
    return x <= -kOne ? -1.0F : result;
  }
};

#if defined(__AVX512F__)

// So many vectors go through each step together: the steps of a polynomial wait for one another.
inline constexpr std::ptrdiff_t kTogether = 4;
struct Vectors {
  __m512 each[kTogether];
};

template <std::size_t count>
[[gnu::always_inline]] inline Vectors polynomial(const float (&coefficients)[count], const Vectors& x) {
  Vectors value;
  for (__m512& each : value.each) each = _mm512_set1_ps(coefficients[0]);
  for (std::size_t i = 1; i < count; ++i) {
    for (std::ptrdiff_t k = 0; k < kTogether; ++k)
      value.each[k] = _mm512_fmadd_ps(value.each[k], x.each[k], _mm512_set1_ps(coefficients[i]));
  }
  return value;
}

// Of numbers within +-kLargest. A division would take as long as all the rest: the quotient comes from the approximate
// reciprocal, with one step of Newton's method and a correction by the remainder. Inlined, so that it stays in registers.
[[gnu::always_inline]] inline Vectors approximate_tanh(const Vectors& x) {
  Vectors square;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) square.each[k] = _mm512_mul_ps(x.each[k], x.each[k]);
  const Vectors p = polynomial(Tanh::kP, square);
  const Vectors q = polynomial(Tanh::kQ, square);
  Vectors result;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) {
    constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns of the undefined vector in the function without a mask
    const __m512 dividend = _mm512_mul_ps(p.each[k], x.each[k]);
    const __m512 guess = _mm512_maskz_rcp14_ps(kAll, q.each[k]);
    const __m512 rest = _mm512_fnmadd_ps(guess, q.each[k], _mm512_set1_ps(1.0F));
    const __m512 inverse = _mm512_fmadd_ps(guess, rest, guess);
    const __m512 quotient = _mm512_mul_ps(dividend, inverse);
    const __m512 remainder = _mm512_fnmadd_ps(quotient, q.each[k], dividend);
    result.each[k] = _mm512_fmadd_ps(remainder, inverse, quotient);
  }
  return result;
}

__m512i size_bits(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)); }

// Are all sizes between kSmallest and kLargest? Sizes are ordered as their bits are, and a NaN's are beyond all others.
[[gnu::always_inline]] inline bool needs_no_care(const Vectors& x) {
  const __m512i least = _mm512_castps_si512(_mm512_set1_ps(Tanh::kSmallest));
  const __m512i range = _mm512_sub_epi32(_mm512_castps_si512(_mm512_set1_ps(Tanh::kLargest)), least);
  unsigned outside = 0;
  for (const __m512& each : x.each)
    outside |= _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(size_bits(each), least), range);
  return outside == 0;
}

// Of any numbers.
[[gnu::noinline]] Vectors careful_tanh(const Vectors& x) {
  Vectors clipped;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) {
    constexpr __mmask16 kAll = 0xffff;
    // The second operand is what min and max return for a NaN.
    clipped.each[k] =
        _mm512_maskz_max_ps(kAll, _mm512_set1_ps(-Tanh::kLargest),
                            _mm512_maskz_min_ps(kAll, _mm512_set1_ps(Tanh::kLargest), x.each[k]));
  }
  Vectors result = approximate_tanh(clipped);
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) {
    const __m512i bits = _mm512_castps_si512(x.each[k]);
    const __m512 size = _mm512_castsi512_ps(size_bits(x.each[k]));
    const __mmask16 small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(Tanh::kSmallest), _CMP_LT_OQ);
    const __mmask16 one = _mm512_cmp_ps_mask(size, _mm512_set1_ps(Tanh::kOne), _CMP_GE_OQ);
    const __m512i signed_one = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN)),
                                               _mm512_castps_si512(_mm512_set1_ps(1.0F)));
    result.each[k] = _mm512_mask_mov_ps(result.each[k], small, x.each[k]);
    result.each[k] = _mm512_mask_mov_ps(result.each[k], one, _mm512_castsi512_ps(signed_one));
  }
  return result;
}

[[gnu::always_inline]] inline Vectors tanh_of(const Vectors& x) {
  return needs_no_care(x) ? approximate_tanh(x) : careful_tanh(x);
}

// As Tanh::apply.
void tanh_loop(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
               std::ptrdiff_t count) {
  constexpr std::ptrdiff_t lanes = kLanes<float>;
  constexpr std::ptrdiff_t block = kTogether * lanes;
  std::ptrdiff_t i = 0;
  if (in_step == kStep<float> && out_step == kStep<float>) {
    for (; count - i >= block; i += block) {
      Vectors x;
      for (std::ptrdiff_t k = 0; k < kTogether; ++k)
        x.each[k] = _mm512_loadu_ps(in + (i + k * lanes) * kStep<float>);
      const Vectors result = tanh_of(x);
      for (std::ptrdiff_t k = 0; k < kTogether; ++k)
        _mm512_storeu_ps(out + (i + k * lanes) * kStep<float>, result.each[k]);
    }
  }
  for (; i < count; i += lanes) {
    Vectors x;
    for (__m512& each : x.each) each = gather<float>(in + i * in_step, in_step, lanes_left<float>(count - i));
    scatter<float>(tanh_of(x).each[0], out + i * out_step, out_step, lanes_left<float>(count - i));
  }
}

#else

inline constexpr UnaryLoop tanh_loop = unary_loop<Tanh, float, float>;

#endif

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
