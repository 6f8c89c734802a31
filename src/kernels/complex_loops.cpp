// Transcendental functions of complex numbers: the C library's, one by one.
#include <cmath>
#include <complex>

#include "kernels/loops.h"

namespace forklift::inline abi_0_1::kernels {
namespace {

template <class T, auto function>
void loop(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
          std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    *reinterpret_cast<T*>(out + i * out_step) = function(*reinterpret_cast<const T*>(in + i * in_step));
  }
}

template <class T>
T reciprocal(const T& value) {
  return T(1) / value;
}
template <class T>
T log2(const T& value) {
  return std::log(value) / static_cast<typename T::value_type>(0.693147180559945309417232121458176568);
}

// The parts of a function's result: of exp(z) - 1 the terms that would cancel are not formed.
template <class T>
T expm1(const T& value) {
  using Real = typename T::value_type;
  constexpr Real kOneIsLost = 40;  // in the sum with e to the power of it
  if (!std::isfinite(value.real()) || !std::isfinite(value.imag()) || value.real() > kOneIsLost) {
    const T power = std::exp(value);
    return {power.real() - 1, power.imag()};
  }
  const Real half = std::sin(value.imag() / 2);
  const Real real = std::expm1(value.real()) * std::cos(value.imag()) - 2 * half * half;
  // The array API standard wants +0 of -0 + 0j.
  return {real == 0 ? Real(0) : real, std::exp(value.real()) * std::sin(value.imag())};
}
// Near 0: |1 + z|^2 - 1 = x (2 + x) + y^2.
template <class T>
T log1p(const T& value) {
  using Real = typename T::value_type;
  const Real x = value.real();
  const Real y = value.imag();
  if (!(std::abs(x) < Real(0.5) && std::abs(y) < Real(0.5))) return std::log(T(1 + x, y));
  return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
}
// At infinity the C library's imaginary part has the sign of sin(2y); the array API standard's has that of y.
template <class T>
T tanh(const T& value) {
  using Real = typename T::value_type;
  if (std::isinf(value.real()) && std::isfinite(value.imag()))
    return {std::copysign(Real(1), value.real()), std::copysign(Real(0), value.imag())};
  return std::tanh(value);
}

template <class Real>
UnaryLoop find(UnaryOp op) noexcept {
  using T = std::complex<Real>;
  switch (op) {
    case UnaryOp::kReciprocal: return loop<T, reciprocal<T>>;
    case UnaryOp::kSqrt: return loop<T, [](const T& value) { return std::sqrt(value); }>;
    case UnaryOp::kExp: return loop<T, [](const T& value) { return std::exp(value); }>;
    case UnaryOp::kExpm1: return loop<T, expm1<T>>;
    case UnaryOp::kLog1p: return loop<T, log1p<T>>;
    case UnaryOp::kLog: return loop<T, [](const T& value) { return std::log(value); }>;
    case UnaryOp::kLog2: return loop<T, log2<T>>;
    case UnaryOp::kLog10: return loop<T, [](const T& value) { return std::log10(value); }>;
    case UnaryOp::kSin: return loop<T, [](const T& value) { return std::sin(value); }>;
    case UnaryOp::kCos: return loop<T, [](const T& value) { return std::cos(value); }>;
    case UnaryOp::kTan: return loop<T, [](const T& value) { return std::tan(value); }>;
    case UnaryOp::kSinh: return loop<T, [](const T& value) { return std::sinh(value); }>;
    case UnaryOp::kCosh: return loop<T, [](const T& value) { return std::cosh(value); }>;
    case UnaryOp::kTanh: return loop<T, tanh<T>>;
    case UnaryOp::kAsin: return loop<T, [](const T& value) { return std::asin(value); }>;
    case UnaryOp::kAcos: return loop<T, [](const T& value) { return std::acos(value); }>;
    case UnaryOp::kAtan: return loop<T, [](const T& value) { return std::atan(value); }>;
    case UnaryOp::kAsinh: return loop<T, [](const T& value) { return std::asinh(value); }>;
    case UnaryOp::kAcosh: return loop<T, [](const T& value) { return std::acosh(value); }>;
    case UnaryOp::kAtanh: return loop<T, [](const T& value) { return std::atanh(value); }>;
    default: return nullptr;
  }
}

template <class Real>
void power(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step,
           std::byte* out, std::ptrdiff_t out_step, std::ptrdiff_t count) {
  using T = std::complex<Real>;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const T& exponent = *reinterpret_cast<const T*>(b + i * b_step);
    const T& base = *reinterpret_cast<const T*>(a + i * a_step);
    *reinterpret_cast<T*>(out + i * out_step) = exponent == T(0) ? T(1) : std::pow(base, exponent);
  }
}

}  // namespace

UnaryLoop complex_function(UnaryOp op, DType dtype) noexcept {
  if (dtype == DType::kComplex64) return find<float>(op);
  if (dtype == DType::kComplex128) return find<double>(op);
  return nullptr;
}

BinaryLoop complex_power(DType dtype) noexcept {
  return dtype == DType::kComplex64 ? power<float> : dtype == DType::kComplex128 ? power<double> : nullptr;
}

}  // namespace forklift::inline abi_0_1::kernels
