// The hyperbolic tangent of floats, by a rational approximation that stays in vectors: x P(x^2) / Q(x^2), which is off
// by 5 units in the last place at most (7 without fused multiply-add).
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/isa/isa.h"
#include "kernels/isa/lanes.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

using Floats = Vector<float>;

// Coefficients: Eigen's generic_fast_tanh_float (MathFunctionsImpl.h, 3.4).
constexpr float kLargest = 7.90531110763549805F;  // of the approximation
constexpr float kOne = 9.02F;                     // from here on, the result is rounded to 1
constexpr float kSmallest = 0.0004F;              // below, it is x
constexpr float kP[] = {-2.76076847742355e-16F, 2.00018790482477e-13F, -8.60467152213735e-11F,
                        5.12229709037114e-08F,  1.48572235717979e-05F, 6.37261928875436e-04F,
                        4.89352455891786e-03F};
constexpr float kQ[] = {1.19825839466702e-06F, 1.18534705686654e-04F, 2.26843463243900e-03F,
                        4.89352518554385e-03F};

// So many vectors go through each step together: the steps of a polynomial wait for one another.
constexpr std::ptrdiff_t kTogether = 4;
struct Vectors {
  Floats each[kTogether];
};

#if defined(__AVX512F__)

[[gnu::always_inline]] inline Floats each_lane(float value) { return _mm512_set1_ps(value); }

[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}

// A division would take as long as all the rest: the quotient comes from the approximate reciprocal, with one step of
// Newton's method and a correction by the remainder.
[[gnu::always_inline]] inline Floats quotient(Floats dividend, Floats divisor) {
  constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns of the undefined vector in the function without a mask
  const __m512 guess = _mm512_maskz_rcp14_ps(kAll, divisor);
  const __m512 rest = _mm512_fnmadd_ps(guess, divisor, _mm512_set1_ps(1.0F));
  const __m512 inverse = _mm512_fmadd_ps(guess, rest, guess);
  const __m512 result = _mm512_mul_ps(dividend, inverse);
  const __m512 remainder = _mm512_fnmadd_ps(result, divisor, dividend);
  return _mm512_fmadd_ps(remainder, inverse, result);
}

[[gnu::always_inline]] inline __m512i size_bits(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
}

// Are all sizes between kSmallest and kLargest? Sizes are ordered as their bits are, and a NaN's are beyond all others.
[[gnu::always_inline]] inline bool needs_no_care(const Vectors& x) {
  const __m512i least = _mm512_castps_si512(_mm512_set1_ps(kSmallest));
  const __m512i range = _mm512_sub_epi32(_mm512_castps_si512(_mm512_set1_ps(kLargest)), least);
  unsigned outside = 0;
  for (const Floats& each : x.each)
    outside |= _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(size_bits(each), least), range);
  return outside == 0;
}

// A NaN stays what it is: the second operand is what min and max return for it.
Floats clip(Floats x) {
  constexpr __mmask16 kAll = 0xffff;
  return _mm512_maskz_max_ps(kAll, _mm512_set1_ps(-kLargest),
                             _mm512_maskz_min_ps(kAll, _mm512_set1_ps(kLargest), x));
}

// What the approximation of a clipped number is not good for.
Floats at_the_ends(Floats x, Floats approximation) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512 size = _mm512_castsi512_ps(size_bits(x));
  const __mmask16 small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(kSmallest), _CMP_LT_OQ);
  const __mmask16 one = _mm512_cmp_ps_mask(size, _mm512_set1_ps(kOne), _CMP_GE_OQ);
  const __m512i signed_one = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN)),
                                             _mm512_castps_si512(_mm512_set1_ps(1.0F)));
  const __m512 result = _mm512_mask_mov_ps(approximation, small, x);
  return _mm512_mask_mov_ps(result, one, _mm512_castsi512_ps(signed_one));
}

#else

[[gnu::always_inline]] inline Floats each_lane(float value) { return Floats{} + value; }

[[gnu::always_inline]] inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

[[gnu::always_inline]] inline Floats quotient(Floats dividend, Floats divisor) { return dividend / divisor; }

using Truths = decltype(Floats{} < Floats{});  // all bits of a lane, or none

[[gnu::always_inline]] inline Floats size_of(Floats x) { return x < 0.0F ? -x : x; }

[[gnu::always_inline]] inline bool is_any(Truths truths) {
#if defined(__AVX2__)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(truths)) != 0;
#else
  std::uint64_t halves[2];
  static_assert(sizeof halves == sizeof truths);
  __builtin_memcpy(halves, &truths, sizeof halves);
  return (halves[0] | halves[1]) != 0;
#endif
}

// Are all sizes between kSmallest and kLargest? A NaN's is not.
[[gnu::always_inline]] inline bool needs_no_care(const Vectors& x) {
  Truths outside = {};
  for (const Floats& each : x.each) {
    const Floats size = size_of(each);
    outside |= ~((size >= kSmallest) & (size <= kLargest));
  }
  return !is_any(outside);
}

// A NaN stays what it is: no comparison with it is true.
Floats clip(Floats x) {
  const Floats below = x > kLargest ? each_lane(kLargest) : x;
  return below < -kLargest ? each_lane(-kLargest) : below;
}

// What the approximation of a clipped number is not good for.
Floats at_the_ends(Floats x, Floats approximation) {
  const Truths small = size_of(x) < kSmallest;
  Floats result = small ? x : approximation;
  result = x >= kOne ? each_lane(1.0F) : result;
  return x <= -kOne ? each_lane(-1.0F) : result;
}

#endif

template <std::size_t count>
[[gnu::always_inline]] inline Vectors polynomial(const float (&coefficients)[count], const Vectors& x) {
  Vectors value;
  for (Floats& each : value.each) each = each_lane(coefficients[0]);
  for (std::size_t i = 1; i < count; ++i) {
    for (std::ptrdiff_t k = 0; k < kTogether; ++k)
      value.each[k] = multiply_add(value.each[k], x.each[k], each_lane(coefficients[i]));
  }
  return value;
}

// Of numbers within +-kLargest. Inlined, so that it stays in registers.
[[gnu::always_inline]] inline Vectors approximate_tanh(const Vectors& x) {
  Vectors square;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) square.each[k] = x.each[k] * x.each[k];
  const Vectors p = polynomial(kP, square);
  const Vectors q = polynomial(kQ, square);
  Vectors result;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) result.each[k] = quotient(p.each[k] * x.each[k], q.each[k]);
  return result;
}

// Of any numbers.
[[gnu::noinline]] Vectors careful_tanh(const Vectors& x) {
  Vectors clipped;
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) clipped.each[k] = clip(x.each[k]);
  Vectors result = approximate_tanh(clipped);
  for (std::ptrdiff_t k = 0; k < kTogether; ++k) result.each[k] = at_the_ends(x.each[k], result.each[k]);
  return result;
}

[[gnu::always_inline]] inline Vectors tanh_of(const Vectors& x) {
  return needs_no_care(x) ? approximate_tanh(x) : careful_tanh(x);
}

}  // namespace

void tanh_loop(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
               std::ptrdiff_t count) {
  constexpr std::ptrdiff_t lanes = kLanes<float>;
  constexpr std::ptrdiff_t block = kTogether * lanes;
  std::ptrdiff_t i = 0;
  if (in_step == kStep<float> && out_step == kStep<float>) {
    for (; count - i >= block; i += block) {
      Vectors x;
      for (std::ptrdiff_t k = 0; k < kTogether; ++k)
        x.each[k] = gather<float>(in + (i + k * lanes) * kStep<float>, kStep<float>, lanes);
      const Vectors result = tanh_of(x);
      for (std::ptrdiff_t k = 0; k < kTogether; ++k)
        scatter<float>(result.each[k], out + (i + k * lanes) * kStep<float>, kStep<float>, lanes);
    }
  }
  for (; i < count; i += lanes) {
    Vectors x;
    for (Floats& each : x.each) each = gather<float>(in + i * in_step, in_step, lanes_left<float>(count - i));
    scatter<float>(tanh_of(x).each[0], out + i * out_step, out_step, lanes_left<float>(count - i));
  }
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
