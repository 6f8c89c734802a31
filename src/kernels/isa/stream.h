// Loops whose results go past the caches: for results that no cache holds. A line that is written as a whole need not
// be read first, so these loops move two thirds of the memory that the ordinary ones of two operands move.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/isa/isa.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
// NOLINTNEXTLINE(cert-dcl59-cpp): see isa.h
namespace {

#if defined(__SSE2__)

inline constexpr std::ptrdiff_t kLineBytes = 64;

inline void stream_line(std::byte* to, const void* line) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_load_si512(line));
#elif defined(__AVX2__)
  const auto* const from = static_cast<const __m256i*>(line);
  for (int i = 0; i < 2; ++i)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + i, _mm256_load_si256(from + i));
#else
  const auto* const from = static_cast<const __m128i*>(line);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_load_si128(from + i));
#endif
}

// Writes element(i) for each i of [0, count) to `out`, which is aligned for T.
template <class T, class Element>
void stream(std::byte* out, std::ptrdiff_t count, Element element) {
  constexpr std::ptrdiff_t lanes = kLineBytes / kStep<T>;
  T* const to = reinterpret_cast<T*>(out);
  std::ptrdiff_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % kLineBytes != 0; ++i) to[i] = element(i);
  for (; count - i >= lanes; i += lanes) {
    alignas(kLineBytes) T line[lanes];
#pragma omp simd
    for (std::ptrdiff_t j = 0; j < lanes; ++j) line[j] = element(i + j);
    stream_line(out + i * kStep<T>, line);
  }
  for (; i < count; ++i) to[i] = element(i);
  _mm_sfence();  // streaming stores are not ordered otherwise, and what follows tells others that they are done
}

template <class F, class T>
void unary_stream(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
                  std::ptrdiff_t count) {
  if (in_step != kStep<T> || out_step != kStep<T>)
    return unary_loop<F, T, T>(in, in_step, out, out_step, count);
  const T* const from = reinterpret_cast<const T*>(in);
  stream<T>(out, count, [from](std::ptrdiff_t i) { return F::apply(from[i]); });
}

template <class F, class T>
void binary_stream(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step,
                   std::byte* out, std::ptrdiff_t out_step, std::ptrdiff_t count) {
  const T* const left = reinterpret_cast<const T*>(a);
  const T* const right = reinterpret_cast<const T*>(b);
  if (out_step == kStep<T> && a_step == kStep<T> && b_step == kStep<T>) {
    stream<T>(out, count, [=](std::ptrdiff_t i) { return F::apply(left[i], right[i]); });
  } else if (out_step == kStep<T> && a_step == kStep<T> && b_step == 0) {
    stream<T>(out, count, [left, number = *right](std::ptrdiff_t i) { return F::apply(left[i], number); });
  } else if (out_step == kStep<T> && a_step == 0 && b_step == kStep<T>) {
    stream<T>(out, count, [right, number = *left](std::ptrdiff_t i) { return F::apply(number, right[i]); });
  } else {
    binary_loop<F, T, T>(a, a_step, b, b_step, out, out_step, count);
  }
}

#else  // no such stores

template <class F, class T>
inline constexpr UnaryLoop unary_stream = nullptr;
template <class F, class T>
inline constexpr BinaryLoop binary_stream = nullptr;

#endif

}  // namespace
}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
