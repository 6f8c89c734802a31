// Elements in device code: their types, reading them, writing them.
//
//   const float x = load<float>(DType::kFloat16, address);     // converted
//   store(DType::kInt8, address, 3.7F);                        // 3
//
// A kernel computes in one of six types: 64-bit integers with and without a sign, float, double, and complex numbers of
// both. The dtypes in memory are told apart when it runs, by a switch that all threads take alike; so there are six
// kernels and not one for each pair of dtypes. Conversions are those of kernels/isa/cast.cpp.
//
// This folder's .cu and .cuh files are compiled by nvcc for a GPU, and by the host's compiler for the tests
// (tests/fake_cuda/host_kernels).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/parameters.h"

namespace forklift::kernels::cuda {

template <class Part>
struct Complex {
  Part re;
  Part im;
};

template <class T>
inline constexpr bool is_complex = false;
template <class Part>
inline constexpr bool is_complex<Complex<Part>> = true;
template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T>;
template <class T>
inline constexpr bool is_int = std::is_integral_v<T>;

// Sixteen-bit floats, which are computed as float. A bool is true if its byte is not zero.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t byte;
};

template <class To, class From>
__device__ inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

#if defined(__CUDA_ARCH__)
__device__ inline float to_float(Half value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
__device__ inline Half to_half(float value) {
  Half result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
#else
inline float to_float(Half value) { return forklift::detail::half_to_float(value.bits); }
inline Half to_half(float value) { return {forklift::detail::float_to_half(value)}; }
#endif
__device__ inline float to_float(Brain value) {
  return bits_as<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
// To the nearest, ties to even; a NaN stays one.
__device__ inline Brain to_brain(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// Integers wrap around.
template <class T>
__device__ inline auto widen(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

// Of a real number. What does not fit becomes the smallest integer of 32 or 64 bits, and narrower integers are the lower
// bits of that, as with NumPy on x86-64.
template <class To, class From>
__device__ inline To to_integer(From value) {
  constexpr From kHalfRange = static_cast<From>(9223372036854775808.0);
  if constexpr (std::is_same_v<To, std::uint64_t>) {
    if (value >= kHalfRange) {
      if (!(value < 2 * kHalfRange)) return std::uint64_t{1} << 63;
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value - kHalfRange)) ^
             (std::uint64_t{1} << 63);
    }
  }
  if constexpr (sizeof(To) == 8 || std::is_same_v<To, std::uint32_t>) {
    const bool fits = value >= -kHalfRange && value < kHalfRange;
    return static_cast<To>(fits ? static_cast<std::int64_t>(value) : INT64_MIN);
  } else {
    const bool fits = value >= static_cast<From>(-2147483648.0) && value < static_cast<From>(2147483648.0);
    return static_cast<To>(fits ? static_cast<std::int32_t>(value) : INT32_MIN);
  }
}

// Between elements in memory and the six types.
template <class To, class From>
__device__ inline To converted(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bool>) {
    return converted<To>(static_cast<std::uint64_t>(value.byte != 0));
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, Brain>) {
    return converted<To>(to_float(value));
  } else if constexpr (is_complex<From>) {
    if constexpr (is_complex<To>) {
      return {static_cast<decltype(To::re)>(value.re), static_cast<decltype(To::im)>(value.im)};
    } else if constexpr (std::is_same_v<To, Bool>) {
      return {static_cast<std::uint8_t>(value.re != 0 || value.im != 0)};
    } else {
      return converted<To>(value.re);
    }
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(value != 0)};
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Brain>) {
    return to_brain(static_cast<float>(value));
  } else if constexpr (is_complex<To>) {
    return {static_cast<decltype(To::re)>(value), 0};
  } else if constexpr (is_real<From> && is_int<To>) {
    return to_integer<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Calls visit(E{}) with the type that elements of the dtype have in memory.
template <class Visit>
__device__ inline void with_element(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kBool: return visit(Bool{});
    case DType::kInt8: return visit(std::int8_t{});
    case DType::kInt16: return visit(std::int16_t{});
    case DType::kInt32: return visit(std::int32_t{});
    case DType::kInt64: return visit(std::int64_t{});
    case DType::kUInt8: return visit(std::uint8_t{});
    case DType::kUInt16: return visit(std::uint16_t{});
    case DType::kUInt32: return visit(std::uint32_t{});
    case DType::kUInt64: return visit(std::uint64_t{});
    case DType::kFloat16: return visit(Half{});
    case DType::kBFloat16: return visit(Brain{});
    case DType::kFloat32: return visit(float{});
    case DType::kFloat64: return visit(double{});
    case DType::kComplex64: return visit(Complex<float>{});
    case DType::kComplex128: return visit(Complex<double>{});
  }
}

// The host never asks integers' kernels to read floats, nor real numbers' to read complex ones: promotion goes the other
// way. What is never read is not compiled.
template <class T, class E>
inline constexpr bool is_read_as = is_complex<T>              ? true
                                   : is_complex<E>            ? false
                                   : is_real<T>               ? true
                                   : std::is_same_v<E, Half>  ? false
                                   : std::is_same_v<E, Brain> ? false
                                                              : !is_real<E>;

template <class E>
__device__ inline const E& at(std::uint64_t address) {
  return *reinterpret_cast<const E*>(address);
}
template <class E>
__device__ inline void put(std::uint64_t address, E value) {
  *reinterpret_cast<E*>(address) = value;
}

template <class T>
__device__ inline T load(DType dtype, std::uint64_t address) {
  T result{};
  with_element(dtype, [&](auto zero) {
    using E = decltype(zero);
    if constexpr (is_read_as<T, E>) result = converted<T>(at<E>(address));
  });
  return result;
}

template <class T>
__device__ inline void store(DType dtype, std::uint64_t address, T value) {
  with_element(dtype, [&](auto zero) {
    using E = decltype(zero);
    put(address, converted<E>(value));
  });
}

// Is it neither zero nor false? Of any dtype.
__device__ inline bool truth(DType dtype, std::uint64_t address) {
  bool result = false;
  with_element(dtype, [&](auto zero) {
    using E = decltype(zero);
    result = converted<Bool>(at<E>(address)).byte != 0;
  });
  return result;
}

}  // namespace forklift::kernels::cuda
