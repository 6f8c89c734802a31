// Operations on tensors: forklift::ops.
//
//   Tensor x = ops::arange(0.0, 12.0).reshape({3, 4});
//   Tensor y = ops::log(x + 1) * 2;                     // returns at once: the value is on its way
//   Tensor row = ops::sum(y, {.axes = Dims{1}, .keepdims = true});
//   std::cout << row << '\n';                           // waits for it
//   ops::add(x, y, x);                                  // into x, which other processes may see
//
// Names, dtypes and results are those of the Python array API standard, and NumPy's where the standard leaves them
// open: shapes are broadcast, dtypes are promoted, and a plain number takes the dtype of the tensor beside it
// (x + 1 is float32). Division by zero and NaN are no errors. Comparisons and logical operations give bools; float16
// and bfloat16 are computed in float32 and rounded once. Functions of integers that have no whole result are computed in
// the float that holds them (int8: float16, int16: float32, wider ones: float64).
//
// A result lies in the arena, so it travels to other processes as a handle. Small operations are computed before they
// return. Large ones are queued for the executor's threads: whatever looks at a result (printing, data(), sending)
// waits for it. Operations on memory whose address the program knows are always complete when they return.
//
// Errors: Error with kInvalid, and the operation with its shapes and dtypes, for what cannot be computed: shapes that
// do not broadcast, a dtype that has no such operation, an axis out of range, `out` that is read-only or of another
// shape. What shows only during the computation (a negative exponent of an integer, an index out of range) is thrown
// by whatever looks at the result. kBrokenByFork: the result was on its way in the parent when this process was
// forked. kOverBudget, kNoSpace: as Tensor::empty.
//
// On a GPU (forklift/device.h) everything in this header is queued on the device, and returns at once; whatever copies the
// result to the CPU waits for it. kUnsupported, before anything is computed: functions of complex numbers but for sqrt, exp,
// log, log2 and log10; what forklift/sorting.h, forklift/indexing.h and forklift/random.h compute (views, diff, roll and tile
// work); or a library that was built without kernels. kDevice: the driver's failure, at the call or where the result is read.
//
// `out`: the result is written there, converted to its dtype if no kind of number gets lost (floats do not become
// integers), and returned. It may be one of the operands, or overlap them.
//
// More of this namespace: forklift/sorting.h, forklift/indexing.h, forklift/random.h.
//
// Thread safety: yes; operations on the same elements are the program's to order across threads. Within one thread
// they happen as written. Process safety: as Tensor's. Fork: waits until everything is computed (forklift/runtime.h).
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "forklift/dtype.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops {

// A number without a dtype of its own.
class Number {
 public:
  // What it may become: a bool anything, a complex number only a complex one.
  enum class Kind : std::uint8_t {
    kBool,
    kInt,
    kReal,
    kComplex
  };

  // A bool or an integer.
  template <class T>
    requires std::integral<T>
  Number(T value) noexcept  // implicit: numbers stand beside tensors in expressions
      : kind_(std::same_as<T, bool> ? Kind::kBool : Kind::kInt),
        is_large_(std::unsigned_integral<T> && static_cast<std::uint64_t>(value) > INT64_MAX),
        whole_(static_cast<std::int64_t>(value)),
        real_(static_cast<double>(value)) {}
  // A real number.
  Number(double value) noexcept : kind_(Kind::kReal), real_(value) {}
  Number(std::complex<double> value) noexcept
      : kind_(Kind::kComplex), real_(value.real()), imag_(value.imag()) {}

  // Which.
  Kind kind() const noexcept { return kind_; }
  // Of bools and integers. is_large(): it is 2^64 more than what whole() says.
  std::int64_t whole() const noexcept { return whole_; }
  bool is_large() const noexcept { return is_large_; }
  // Of all of them.
  double real() const noexcept { return real_; }
  double imag() const noexcept { return imag_; }

 private:
  Kind kind_;
  bool is_large_ = false;
  std::int64_t whole_ = 0;
  double real_ = 0;
  double imag_ = 0;
};

// A tensor or a number. Refers to the tensor, which must outlive it.
class Operand {
 public:
  // A tensor.
  Operand(const Tensor& tensor) noexcept : tensor_(&tensor), number_(0) {}
  // A number.
  template <class T>
    requires std::is_arithmetic_v<T> || std::same_as<T, std::complex<double>>
  Operand(T number) noexcept : number_(number) {}
  // A number of a kind that is known only at run time.
  Operand(Number number) noexcept : number_(number) {}

  // Null: a number.
  const Tensor* tensor() const noexcept { return tensor_; }
  const Number& number() const noexcept { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Number number_;
};

// Where a result goes: nowhere in particular, or into a tensor.
class Out {
 public:
  Out() noexcept = default;
  // There. Refers to the tensor.
  Out(const Tensor& tensor) noexcept : tensor_(&tensor) {}
  // Null: nowhere in particular.
  const Tensor* tensor() const noexcept { return tensor_; }

 private:
  const Tensor* tensor_ = nullptr;
};

// --- of one operand, element by element

// -x
Tensor negative(const Operand& x, Out out = {});
// A copy.
Tensor positive(const Operand& x, Out out = {});
// The magnitude; of complex numbers a real one.
Tensor abs(const Operand& x, Out out = {});
// -1, 0 or 1; of a complex number x / abs(x).
Tensor sign(const Operand& x, Out out = {});
// x * x
Tensor square(const Operand& x, Out out = {});
// 1 / x
Tensor reciprocal(const Operand& x, Out out = {});
// The square root; NaN of what is negative.
Tensor sqrt(const Operand& x, Out out = {});
// e to the power of x.
Tensor exp(const Operand& x, Out out = {});
// 2 to the power of x.
Tensor exp2(const Operand& x, Out out = {});
// exp(x) - 1, accurate near 0.
Tensor expm1(const Operand& x, Out out = {});
// The natural logarithm; -inf at 0, NaN below.
Tensor log(const Operand& x, Out out = {});
// The logarithm to base 2.
Tensor log2(const Operand& x, Out out = {});
// The logarithm to base 10.
Tensor log10(const Operand& x, Out out = {});
// log(1 + x), accurate near 0.
Tensor log1p(const Operand& x, Out out = {});
// The sine; angles are in radians.
Tensor sin(const Operand& x, Out out = {});
// The cosine.
Tensor cos(const Operand& x, Out out = {});
// The tangent.
Tensor tan(const Operand& x, Out out = {});
// The inverse sine, from -pi/2 to pi/2.
Tensor asin(const Operand& x, Out out = {});
// The inverse cosine, from 0 to pi.
Tensor acos(const Operand& x, Out out = {});
// The inverse tangent, from -pi/2 to pi/2.
Tensor atan(const Operand& x, Out out = {});
// The hyperbolic sine.
Tensor sinh(const Operand& x, Out out = {});
// The hyperbolic cosine.
Tensor cosh(const Operand& x, Out out = {});
// The hyperbolic tangent.
Tensor tanh(const Operand& x, Out out = {});
// The inverse hyperbolic sine.
Tensor asinh(const Operand& x, Out out = {});
// The inverse hyperbolic cosine.
Tensor acosh(const Operand& x, Out out = {});
// The inverse hyperbolic tangent.
Tensor atanh(const Operand& x, Out out = {});
// The cube root.
Tensor cbrt(const Operand& x, Out out = {});
// The error function.
Tensor erf(const Operand& x, Out out = {});
// Rounded towards plus infinity.
Tensor ceil(const Operand& x, Out out = {});
// Rounded towards minus infinity.
Tensor floor(const Operand& x, Out out = {});
// Rounded towards zero.
Tensor trunc(const Operand& x, Out out = {});
// Half-way cases go to the even number. Of a complex number both parts.
Tensor round(const Operand& x, Out out = {});
// bool: is it no number?
Tensor isnan(const Operand& x, Out out = {});
// bool: is it infinite?
Tensor isinf(const Operand& x, Out out = {});
// bool: is it neither infinite nor NaN?
Tensor isfinite(const Operand& x, Out out = {});
// bool: is its sign bit set?
Tensor signbit(const Operand& x, Out out = {});
// bool: is it zero?
Tensor logical_not(const Operand& x, Out out = {});
// All bits turned over; of bools as logical_not.
Tensor bitwise_invert(const Operand& x, Out out = {});
// The real part.
Tensor real(const Operand& x, Out out = {});
// The imaginary part of complex numbers.
Tensor imag(const Operand& x, Out out = {});
// The complex conjugate.
Tensor conj(const Operand& x, Out out = {});

// --- of two

// a + b; of bools logical or.
Tensor add(const Operand& a, const Operand& b, Out out = {});
// a - b; not of bools.
Tensor subtract(const Operand& a, const Operand& b, Out out = {});
// a * b; of bools logical and.
Tensor multiply(const Operand& a, const Operand& b, Out out = {});
// Of integers, too, a float.
Tensor divide(const Operand& a, const Operand& b, Out out = {});
// The quotient rounded towards minus infinity.
Tensor floor_divide(const Operand& a, const Operand& b, Out out = {});
// a - b * floor_divide(a, b): it has b's sign.
Tensor remainder(const Operand& a, const Operand& b, Out out = {});
// a to the power of b.
Tensor pow(const Operand& a, const Operand& b, Out out = {});
// The larger one; a NaN wins.
Tensor maximum(const Operand& a, const Operand& b, Out out = {});
// The smaller one; a NaN wins.
Tensor minimum(const Operand& a, const Operand& b, Out out = {});
// The angle of the point (x, y), from -pi to pi.
Tensor atan2(const Operand& y, const Operand& x, Out out = {});
// sqrt(a * a + b * b), without overflow in between.
Tensor hypot(const Operand& a, const Operand& b, Out out = {});
// The magnitude of a with the sign of the other.
Tensor copysign(const Operand& a, const Operand& sign, Out out = {});
// The next number after a.
Tensor nextafter(const Operand& a, const Operand& towards, Out out = {});
// log(exp(a) + exp(b)), without overflow in between.
Tensor logaddexp(const Operand& a, const Operand& b, Out out = {});
// bool: a == b.
Tensor equal(const Operand& a, const Operand& b, Out out = {});
// bool: a != b.
Tensor not_equal(const Operand& a, const Operand& b, Out out = {});
// bool: a < b.
Tensor less(const Operand& a, const Operand& b, Out out = {});
// bool: a <= b.
Tensor less_equal(const Operand& a, const Operand& b, Out out = {});
// bool: a > b.
Tensor greater(const Operand& a, const Operand& b, Out out = {});
// bool: a >= b.
Tensor greater_equal(const Operand& a, const Operand& b, Out out = {});
// bool: is neither zero?
Tensor logical_and(const Operand& a, const Operand& b, Out out = {});
// bool: is one of them not zero?
Tensor logical_or(const Operand& a, const Operand& b, Out out = {});
// bool: is exactly one of them zero?
Tensor logical_xor(const Operand& a, const Operand& b, Out out = {});
// a & b.
Tensor bitwise_and(const Operand& a, const Operand& b, Out out = {});
// a | b.
Tensor bitwise_or(const Operand& a, const Operand& b, Out out = {});
// a ^ b.
Tensor bitwise_xor(const Operand& a, const Operand& b, Out out = {});
// a << bits; 0 where that is more bits than there are.
Tensor bitwise_left_shift(const Operand& a, const Operand& bits, Out out = {});
// a >> bits, keeping the sign.
Tensor bitwise_right_shift(const Operand& a, const Operand& bits, Out out = {});

// --- of three

// a where the condition holds, else b.
Tensor where(const Operand& condition, const Operand& a, const Operand& b, Out out = {});
// At least `low`, at most `high`.
Tensor clip(const Operand& x, std::optional<Operand> low, std::optional<Operand> high, Out out = {});

// --- of all elements along some dimensions

// Which dimensions, and what becomes of them.
struct Reduction {
  // All, if nothing is said. Negative ones count from the end.
  std::optional<Dims> axes = std::nullopt;
  // Keep them, with length one.
  bool keepdims = false;
  // Convert to this before; without it sums and products of narrow integers are of 64 bits.
  std::optional<DType> dtype = std::nullopt;
};

// The sum.
Tensor sum(const Tensor& x, const Reduction& how = {}, Out out = {});
// The product.
Tensor prod(const Tensor& x, const Reduction& how = {}, Out out = {});
// kInvalid where there are no elements. A NaN wins.
Tensor max(const Tensor& x, const Reduction& how = {}, Out out = {});
// kInvalid where there are no elements. A NaN wins.
Tensor min(const Tensor& x, const Reduction& how = {}, Out out = {});
// bool: is no element zero?
Tensor all(const Tensor& x, const Reduction& how = {}, Out out = {});
// bool: is any element not zero?
Tensor any(const Tensor& x, const Reduction& how = {}, Out out = {});
// The mean; of integers a float64.
Tensor mean(const Tensor& x, const Reduction& how = {}, Out out = {});
// `correction` is taken from the number of elements: 1 for a sample's.
Tensor var(const Tensor& x, double correction = 0, const Reduction& how = {}, Out out = {});
// The square root of var().
Tensor std(const Tensor& x, double correction = 0, const Reduction& how = {}, Out out = {});
// The index, as int64, of the first such element; without an axis that of the flattened tensor.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);
// The same of the smallest.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = std::nullopt, bool keepdims = false);

// --- linear algebra

// The product of matrices, of stacks of them (which are broadcast), or with vectors, as NumPy's matmul.
Tensor matmul(const Tensor& a, const Tensor& b, Out out = {});
// The sums of conj(a) * b along one dimension; the others are broadcast.
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis = -1);
// The sums of a * b along pairs of dimensions: those named, or the last `count` of `a` with the first ones of `b`.
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes);
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count = 2);

// --- of other shapes, and of several parts

// Along a dimension in which alone they may differ; without an axis they are flattened before.
Tensor concat(std::span<const Tensor> parts, std::optional<std::int64_t> axis = 0);
// Along a new dimension.
Tensor stack(std::span<const Tensor> parts, std::int64_t axis = 0);
// A read-only view that repeats its elements.
Tensor broadcast_to(const Tensor& x, Dims shape);
// A view if the elements lie so that one is possible, else a copy. One length may be -1: whatever remains.
Tensor reshape(const Tensor& x, Dims shape);
// A view with one more dimension, of length one.
Tensor expand_dims(const Tensor& x, std::int64_t axis = 0);
// A view without these dimensions, which have length one.
Tensor squeeze(const Tensor& x, const Dims& axes);
// A view with its elements in reverse order, along all dimensions if none are named.
Tensor flip(const Tensor& x, const std::optional<Dims>& axes = std::nullopt);

// --- new ones, made where device_target() says

// All elements alike. Without a dtype: int64, float32, bool or complex64, as the number is.
Tensor full(Dims shape, const Number& value, std::optional<DType> dtype = std::nullopt);
// Zeros, ones, or elements of any value.
Tensor zeros(Dims shape, DType dtype = DType::kFloat32);
Tensor ones(Dims shape, DType dtype = DType::kFloat32);
Tensor empty(Dims shape, DType dtype = DType::kFloat32);
// Of the shape of another, on its device, and of its dtype if none is named.
Tensor full_like(const Tensor& x, const Number& value, std::optional<DType> dtype = std::nullopt);
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = std::nullopt);
Tensor empty_like(const Tensor& x, std::optional<DType> dtype = std::nullopt);
// start, start + step ... before stop.
Tensor arange(const Number& start, const Number& stop, const Number& step = 1,
              std::optional<DType> dtype = std::nullopt);
// `count` numbers from start to stop, which is the last of them if `endpoint`.
Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::kFloat32,
                bool endpoint = true);

// --- conversion

// Always a new tensor. Floats are truncated to integers; what does not fit wraps around or is the smallest integer.
Tensor astype(const Tensor& x, DType dtype);
// The dtype of an operation between the two. Of numbers alone the default one of the wider kind.
DType result_type(const Operand& a, const Operand& b);
// Does every number of the one dtype have its like in the other?
bool can_cast(DType from, DType to);

}  // namespace forklift::inline abi_0_1::ops

namespace forklift::inline abi_0_1 {

// Arithmetic as in ops, for tensors beside tensors and numbers.
inline Tensor operator+(const Tensor& a, const ops::Operand& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const ops::Operand& b) { return ops::subtract(a, b); }
inline Tensor operator*(const Tensor& a, const ops::Operand& b) { return ops::multiply(a, b); }
inline Tensor operator/(const Tensor& a, const ops::Operand& b) { return ops::divide(a, b); }
inline Tensor operator+(const ops::Number& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const ops::Number& a, const Tensor& b) { return ops::subtract(a, b); }
inline Tensor operator*(const ops::Number& a, const Tensor& b) { return ops::multiply(a, b); }
inline Tensor operator/(const ops::Number& a, const Tensor& b) { return ops::divide(a, b); }
inline Tensor operator-(const Tensor& a) { return ops::negative(a); }
inline const Tensor& operator+=(const Tensor& a, const ops::Operand& b) { return ops::add(a, b, a), a; }
inline const Tensor& operator-=(const Tensor& a, const ops::Operand& b) { return ops::subtract(a, b, a), a; }
inline const Tensor& operator*=(const Tensor& a, const ops::Operand& b) { return ops::multiply(a, b, a), a; }
inline const Tensor& operator/=(const Tensor& a, const ops::Operand& b) { return ops::divide(a, b, a), a; }

}  // namespace forklift::inline abi_0_1
