// The functions of forklift/ops.h that work element by element. What they do is in the ops room.
#include "api/attached.h"
#include "forklift/ops.h"
#include "ops/elementwise.h"

namespace forklift::inline abi_0_1::ops {

using kernels::BinaryOp;
using kernels::UnaryOp;

Tensor negative(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kNegative, x, out)); }
Tensor positive(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kPositive, x, out)); }
Tensor abs(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAbs, x, out)); }
Tensor sign(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSign, x, out)); }
Tensor square(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSquare, x, out)); }
Tensor reciprocal(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kReciprocal, x, out)); }
Tensor sqrt(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSqrt, x, out)); }
Tensor exp(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kExp, x, out)); }
Tensor exp2(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kExp2, x, out)); }
Tensor expm1(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kExpm1, x, out)); }
Tensor log(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kLog, x, out)); }
Tensor log2(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kLog2, x, out)); }
Tensor log10(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kLog10, x, out)); }
Tensor log1p(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kLog1p, x, out)); }
Tensor sin(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSin, x, out)); }
Tensor cos(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kCos, x, out)); }
Tensor tan(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kTan, x, out)); }
Tensor asin(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAsin, x, out)); }
Tensor acos(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAcos, x, out)); }
Tensor atan(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAtan, x, out)); }
Tensor sinh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSinh, x, out)); }
Tensor cosh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kCosh, x, out)); }
Tensor tanh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kTanh, x, out)); }
Tensor asinh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAsinh, x, out)); }
Tensor acosh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAcosh, x, out)); }
Tensor atanh(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kAtanh, x, out)); }
Tensor cbrt(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kCbrt, x, out)); }
Tensor erf(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kErf, x, out)); }
Tensor ceil(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kCeil, x, out)); }
Tensor floor(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kFloor, x, out)); }
Tensor trunc(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kTrunc, x, out)); }
Tensor round(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kRound, x, out)); }
Tensor isnan(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kIsNan, x, out)); }
Tensor isinf(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kIsInf, x, out)); }
Tensor isfinite(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kIsFinite, x, out)); }
Tensor signbit(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kSignbit, x, out)); }
Tensor logical_not(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kLogicalNot, x, out)); }
Tensor bitwise_invert(const Operand& x, Out out) {
  return value_or_throw(unary(UnaryOp::kBitwiseInvert, x, out));
}
Tensor real(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kReal, x, out)); }
Tensor imag(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kImag, x, out)); }
Tensor conj(const Operand& x, Out out) { return value_or_throw(unary(UnaryOp::kConj, x, out)); }

Tensor add(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kAdd, a, b, out));
}
Tensor subtract(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kSubtract, a, b, out));
}
Tensor multiply(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kMultiply, a, b, out));
}
Tensor divide(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kDivide, a, b, out));
}
Tensor floor_divide(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kFloorDivide, a, b, out));
}
Tensor remainder(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kRemainder, a, b, out));
}
Tensor pow(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kPow, a, b, out));
}
Tensor maximum(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kMaximum, a, b, out));
}
Tensor minimum(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kMinimum, a, b, out));
}
Tensor atan2(const Operand& y, const Operand& x, Out out) {
  return value_or_throw(binary(BinaryOp::kAtan2, y, x, out));
}
Tensor hypot(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kHypot, a, b, out));
}
Tensor copysign(const Operand& a, const Operand& sign, Out out) {
  return value_or_throw(binary(BinaryOp::kCopysign, a, sign, out));
}
Tensor nextafter(const Operand& a, const Operand& towards, Out out) {
  return value_or_throw(binary(BinaryOp::kNextafter, a, towards, out));
}
Tensor logaddexp(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLogaddexp, a, b, out));
}
Tensor equal(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kEqual, a, b, out));
}
Tensor not_equal(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kNotEqual, a, b, out));
}
Tensor less(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLess, a, b, out));
}
Tensor less_equal(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLessEqual, a, b, out));
}
Tensor greater(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kGreater, a, b, out));
}
Tensor greater_equal(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kGreaterEqual, a, b, out));
}
Tensor logical_and(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLogicalAnd, a, b, out));
}
Tensor logical_or(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLogicalOr, a, b, out));
}
Tensor logical_xor(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kLogicalXor, a, b, out));
}
Tensor bitwise_and(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kBitwiseAnd, a, b, out));
}
Tensor bitwise_or(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kBitwiseOr, a, b, out));
}
Tensor bitwise_xor(const Operand& a, const Operand& b, Out out) {
  return value_or_throw(binary(BinaryOp::kBitwiseXor, a, b, out));
}
Tensor bitwise_left_shift(const Operand& a, const Operand& bits, Out out) {
  return value_or_throw(binary(BinaryOp::kBitwiseLeftShift, a, bits, out));
}
Tensor bitwise_right_shift(const Operand& a, const Operand& bits, Out out) {
  return value_or_throw(binary(BinaryOp::kBitwiseRightShift, a, bits, out));
}

Tensor where(const Operand& condition, const Operand& a, const Operand& b, Out out) {
  return value_or_throw(select(condition, a, b, out));
}
Tensor clip(const Operand& x, std::optional<Operand> low, std::optional<Operand> high, Out out) {
  return value_or_throw(clamp(x, low, high, out));
}
Tensor astype(const Tensor& x, DType dtype) { return value_or_throw(convert(x, dtype)); }

}  // namespace forklift::inline abi_0_1::ops
