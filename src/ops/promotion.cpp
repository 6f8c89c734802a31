#include "ops/promotion.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>

namespace forklift::inline abi_0_1::ops {
namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;

DType signed_of(std::size_t bytes) noexcept {
  return bytes == 1 ? DType::kInt8 : bytes == 2 ? DType::kInt16 : bytes == 4 ? DType::kInt32 : DType::kInt64;
}

DType complex_of(DType real) noexcept {
  return real == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
}
DType real_of(DType complex) noexcept {
  return complex == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
}

// An integer beside a float: the float that holds both.
DType promote_integer(DType integer, DType real) noexcept {
  const std::size_t bytes = item_size(integer);
  if (bytes == 1 || kind_of(integer) == Kind::kBool) return real;
  if (bytes == 2) return is_narrow(real) ? DType::kFloat32 : real;
  return DType::kFloat64;
}

DType promote_reals(DType a, DType b) noexcept {
  if (is_narrow(a) && is_narrow(b)) return DType::kFloat32;  // two different ones
  return item_size(a) > item_size(b) ? a : b;
}

DType promote_integers(DType a, DType b) noexcept {
  const bool a_signed = kind_of(a) == Kind::kSigned;
  const bool b_signed = kind_of(b) == Kind::kSigned;
  if (a_signed == b_signed) return item_size(a) > item_size(b) ? a : b;
  const DType with_sign = a_signed ? a : b;
  const DType without = a_signed ? b : a;
  if (item_size(with_sign) > item_size(without)) return with_sign;
  return item_size(without) == 8 ? DType::kFloat64 : signed_of(2 * item_size(without));
}

template <class T>
bool write_whole(const Number& number, std::byte* out) noexcept {
  if (number.is_large() ? !std::is_same_v<T, std::uint64_t> : !std::in_range<T>(number.whole())) return false;
  const T value = static_cast<T>(number.whole());
  std::memcpy(out, &value, sizeof value);
  return true;
}

template <class T>
bool write(T value, std::byte* out) noexcept {
  std::memcpy(out, &value, sizeof value);
  return true;
}

}  // namespace

Kind kind_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool: return Kind::kBool;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: return Kind::kSigned;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return Kind::kUnsigned;
    case DType::kComplex64:
    case DType::kComplex128: return Kind::kComplex;
    default: return Kind::kReal;
  }
}

DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  if (kind_of(a) < kind_of(b)) std::swap(a, b);  // a is of the wider kind
  const Kind narrower = kind_of(b);
  switch (kind_of(a)) {
    case Kind::kComplex: {
      if (narrower == Kind::kComplex) return DType::kComplex128;
      const DType real = narrower == Kind::kReal ? b : float_for(b);
      return complex_of(promote(real_of(a), real));
    }
    case Kind::kReal: return narrower == Kind::kReal ? promote_reals(a, b) : promote_integer(b, a);
    case Kind::kSigned:
    case Kind::kUnsigned: return narrower == Kind::kBool ? a : promote_integers(a, b);
    default: return a;
  }
}

DType promote_numbers(DType a, DType b) noexcept {
  const Kind kind = std::max(kind_of(a), kind_of(b));
  if (kind >= Kind::kReal) return kind_of(a) == kind ? a : b;
  return promote(a, b);
}

DType default_dtype(const Number& number) noexcept {
  switch (number.kind()) {
    case Number::Kind::kBool: return DType::kBool;
    case Number::Kind::kInt: return number.is_large() ? DType::kUInt64 : DType::kInt64;
    case Number::Kind::kReal: return DType::kFloat32;
    default: return DType::kComplex64;
  }
}

DType dtype_with(const Number& number, DType dtype) noexcept {
  const Kind kind = kind_of(dtype);
  switch (number.kind()) {
    case Number::Kind::kBool: return dtype;
    case Number::Kind::kInt: return kind == Kind::kBool ? default_dtype(number) : dtype;
    case Number::Kind::kReal: return kind < Kind::kReal ? DType::kFloat64 : dtype;
    default:
      if (kind == Kind::kComplex) return dtype;
      return kind == Kind::kReal ? complex_of(dtype) : DType::kComplex128;
  }
}

DType result_type(const Operand* operands, std::size_t count) noexcept {
  std::optional<DType> dtype;
  for (std::size_t i = 0; i < count; ++i) {
    if (const Tensor* tensor = operands[i].tensor())
      dtype = dtype ? promote(*dtype, tensor->dtype()) : tensor->dtype();
  }
  const bool numbers_only = !dtype;
  for (std::size_t i = 0; i < count; ++i) {
    if (operands[i].tensor() != nullptr) continue;
    const DType own = default_dtype(operands[i].number());
    dtype = !dtype         ? own
            : numbers_only ? promote_numbers(*dtype, own)
                           : dtype_with(operands[i].number(), *dtype);
  }
  return *dtype;
}

DType result_type(const Operand& a, const Operand& b) {
  if (a.tensor() != nullptr && b.tensor() != nullptr)
    return promote(a.tensor()->dtype(), b.tensor()->dtype());
  const Operand both[] = {a, b};
  return result_type(both, 2);
}

bool can_cast(DType from, DType to) { return promote(from, to) == to; }

DType float_for(DType dtype) noexcept {
  if (kind_of(dtype) >= Kind::kReal) return dtype;
  return item_size(dtype) == 1 ? DType::kFloat16 : item_size(dtype) == 2 ? DType::kFloat32 : DType::kFloat64;
}

std::optional<DType> operands_dtype(UnaryOp op, DType common) noexcept {
  const Kind kind = kind_of(common);
  switch (op) {
    case UnaryOp::kNegative:
    case UnaryOp::kPositive:
    case UnaryOp::kSign: return kind == Kind::kBool ? std::nullopt : std::optional(common);
    case UnaryOp::kAbs: return common;
    case UnaryOp::kSquare: return kind == Kind::kBool ? DType::kInt8 : common;
    case UnaryOp::kCeil:
    case UnaryOp::kFloor:
    case UnaryOp::kTrunc: return kind == Kind::kComplex ? std::nullopt : std::optional(common);
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kIsFinite:
    case UnaryOp::kLogicalNot: return common;
    case UnaryOp::kSignbit: return kind == Kind::kComplex ? std::nullopt : std::optional(float_for(common));
    case UnaryOp::kBitwiseInvert: return kind < Kind::kReal ? std::optional(common) : std::nullopt;
    case UnaryOp::kRound:
    case UnaryOp::kReal:
    case UnaryOp::kImag:
    case UnaryOp::kConj: return common;
    case UnaryOp::kCbrt:
    case UnaryOp::kErf: return kind == Kind::kComplex ? std::nullopt : std::optional(float_for(common));
    default: return float_for(common);
  }
}

std::optional<DType> operands_dtype(BinaryOp op, DType common) noexcept {
  const Kind kind = kind_of(common);
  const auto unless = [common](bool refused) { return refused ? std::nullopt : std::optional(common); };
  switch (op) {
    case BinaryOp::kSubtract: return unless(kind == Kind::kBool);
    // As NumPy: a float64 whatever the integers.
    case BinaryOp::kDivide: return kind < Kind::kReal ? DType::kFloat64 : common;
    case BinaryOp::kFloorDivide:
    case BinaryOp::kRemainder:
      return kind == Kind::kBool ? std::optional(DType::kInt8) : unless(kind == Kind::kComplex);
    case BinaryOp::kPow: return kind == Kind::kBool ? DType::kInt8 : common;
    case BinaryOp::kMaximum:
    case BinaryOp::kMinimum:
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual: return unless(kind == Kind::kComplex);
    case BinaryOp::kAtan2:
    case BinaryOp::kHypot:
    case BinaryOp::kCopysign:
    case BinaryOp::kNextafter:
    case BinaryOp::kLogaddexp:
      return kind == Kind::kComplex ? std::nullopt : std::optional(float_for(common));
    case BinaryOp::kBitwiseAnd:
    case BinaryOp::kBitwiseOr:
    case BinaryOp::kBitwiseXor: return unless(kind >= Kind::kReal);
    case BinaryOp::kBitwiseLeftShift:
    case BinaryOp::kBitwiseRightShift:
      return kind == Kind::kBool ? std::optional(DType::kInt8) : unless(kind >= Kind::kReal);
    default: return common;
  }
}

bool may_convert(DType from, DType to) noexcept {
  const Kind source = kind_of(from);
  const Kind target = kind_of(to);
  if (source == Kind::kUnsigned && target == Kind::kSigned) return true;
  if (source == Kind::kSigned && target == Kind::kUnsigned) return false;
  return source <= target;
}

bool write_number(const Number& number, DType dtype, std::byte* out) noexcept {
  const auto real = static_cast<float>(number.real());
  switch (dtype) {
    case DType::kBool: return write<bool>(number.real() != 0 || number.imag() != 0, out);
    case DType::kInt8: return write_whole<std::int8_t>(number, out);
    case DType::kInt16: return write_whole<std::int16_t>(number, out);
    case DType::kInt32: return write_whole<std::int32_t>(number, out);
    case DType::kInt64: return write_whole<std::int64_t>(number, out);
    case DType::kUInt8: return write_whole<std::uint8_t>(number, out);
    case DType::kUInt16: return write_whole<std::uint16_t>(number, out);
    case DType::kUInt32: return write_whole<std::uint32_t>(number, out);
    case DType::kUInt64: return write_whole<std::uint64_t>(number, out);
    case DType::kFloat16: return write(Float16(real), out);
    case DType::kBFloat16: return write(BFloat16(real), out);
    case DType::kFloat32: return write(real, out);
    case DType::kFloat64: return write(number.real(), out);
    case DType::kComplex64: return write(std::complex<float>(real, static_cast<float>(number.imag())), out);
    case DType::kComplex128: return write(std::complex<double>(number.real(), number.imag()), out);
  }
  return false;
}

}  // namespace forklift::inline abi_0_1::ops
