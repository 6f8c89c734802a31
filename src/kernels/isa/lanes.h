// Vectors of this variant's width, filled from elements that lie at any distance.
#pragma once

#include "kernels/isa/isa.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
// NOLINTNEXTLINE(cert-dcl59-cpp): see isa.h.
namespace {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
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

}  // namespace
}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
