// What the files of this folder share. Each is compiled several times, with FORKLIFT_ISA naming the instructions that
// the compiler may use.
//
// Everything here and in those files is in the anonymous namespace but for the few functions below, whose namespace
// has the name of the instructions: a function with a name that all variants share could be the one that the linker
// keeps, and then run where its instructions are missing. For the same reason nothing of the C++ library is called
// that is not a constant or a type (tests/cpp/kernels/symbols.cmake looks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "forklift/dtype.h"
#include "kernels/loops.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {

UnaryLoop unary(UnaryOp op, DType dtype) noexcept;
UnaryLoop math(UnaryOp op, DType dtype) noexcept;  // of float32 and float64
// Of float32.
void tanh_loop(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
               std::ptrdiff_t count);
BinaryLoop binary(BinaryOp op, DType dtype) noexcept;
BinaryLoop math(BinaryOp op, DType dtype) noexcept;
BinaryLoop compare(BinaryOp op, DType dtype) noexcept;
UnaryLoop cast(DType from, DType to) noexcept;
SelectLoop select(std::size_t item_size) noexcept;
ReduceLoops reduce(ReduceOp op, DType dtype) noexcept;
MatrixLoop matmul(DType dtype) noexcept;
UnaryLoop streaming_unary(UnaryOp op, DType dtype) noexcept;
BinaryLoop streaming_binary(BinaryOp op, DType dtype) noexcept;

// NOLINTNEXTLINE(cert-dcl59-cpp): what is in it must have no name that the linker sees (see above).
namespace {

struct Bool {
  std::uint8_t byte;
  explicit operator bool() const { return byte != 0; }
};

template <class Real>
struct Complex {
  Real re;
  Real im;
};

template <class T>
inline constexpr bool is_complex = false;
template <class Real>
inline constexpr bool is_complex<Complex<Real>> = true;
template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T>;
template <class T>
inline constexpr bool is_int = std::is_integral_v<T>;
template <class T>
inline constexpr bool is_number = is_real<T> || is_int<T> || is_complex<T>;

template <class T>
struct Type {
  using type = T;
};

// Calls visit(Type<T>()) with the type that elements are computed in; for float16 and bfloat16 returns `otherwise`.
template <class Visit, class Value>
Value with_type(DType dtype, Value otherwise, Visit visit) {
  switch (dtype) {
    case DType::kBool: return visit(Type<Bool>());
    case DType::kInt8: return visit(Type<std::int8_t>());
    case DType::kInt16: return visit(Type<std::int16_t>());
    case DType::kInt32: return visit(Type<std::int32_t>());
    case DType::kInt64: return visit(Type<std::int64_t>());
    case DType::kUInt8: return visit(Type<std::uint8_t>());
    case DType::kUInt16: return visit(Type<std::uint16_t>());
    case DType::kUInt32: return visit(Type<std::uint32_t>());
    case DType::kUInt64: return visit(Type<std::uint64_t>());
    case DType::kFloat32: return visit(Type<float>());
    case DType::kFloat64: return visit(Type<double>());
    case DType::kComplex64: return visit(Type<Complex<float>>());
    case DType::kComplex128: return visit(Type<Complex<double>>());
    default: return otherwise;
  }
}

// Integers wrap around: their arithmetic is that of unsigned numbers at least as wide as an int.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
template <class T>
Wide<T> widen(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

template <class T>
const T& at(const std::byte* base, std::ptrdiff_t offset) {
  return *reinterpret_cast<const T*>(base + offset);
}
template <class T>
T& at(std::byte* base, std::ptrdiff_t offset) {
  return *reinterpret_cast<T*>(base + offset);
}

template <class T>
inline constexpr std::ptrdiff_t kStep = static_cast<std::ptrdiff_t>(sizeof(T));

// F::apply of each element. Where elements lie side by side the compiler uses vectors.
template <class F, class In, class Out>
void unary_loop(const std::byte* in, std::ptrdiff_t in_step, std::byte* out, std::ptrdiff_t out_step,
                std::ptrdiff_t count) {
  if (in_step == kStep<In> && out_step == kStep<Out>) {
    const In* const from = reinterpret_cast<const In*>(in);
    Out* const to = reinterpret_cast<Out*>(out);
#pragma omp simd
    for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = F::apply(from[i]);
    return;
  }
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    at<Out>(out, i * out_step) = F::apply(at<In>(in, i * in_step));
  }
}

template <class F, class In, class Out>
void binary_loop(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step,
                 std::byte* out, std::ptrdiff_t out_step, std::ptrdiff_t count) {
  const In* const left = reinterpret_cast<const In*>(a);
  const In* const right = reinterpret_cast<const In*>(b);
  Out* const to = reinterpret_cast<Out*>(out);
  if (out_step == kStep<Out> && a_step == kStep<In> && b_step == kStep<In>) {
#pragma omp simd
    for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = F::apply(left[i], right[i]);
  } else if (out_step == kStep<Out> && a_step == kStep<In> && b_step == 0) {
    const In number = *right;
#pragma omp simd
    for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = F::apply(left[i], number);
  } else if (out_step == kStep<Out> && a_step == 0 && b_step == kStep<In>) {
    const In number = *left;
#pragma omp simd
    for (std::ptrdiff_t i = 0; i < count; ++i) to[i] = F::apply(number, right[i]);
  } else {
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      at<Out>(out, i * out_step) = F::apply(at<In>(a, i * a_step), at<In>(b, i * b_step));
    }
  }
}

}  // namespace
}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
