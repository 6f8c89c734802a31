// Which dtype an operation is computed in.
//
//   promote(DType::kInt32, DType::kFloat32);        // kFloat64
//   dtype_with(number, DType::kFloat32);            // float32 beside 1, 2.5 and true; complex64 beside 1i
//
// The array API standard's rules, and NumPy's result_type where the standard has none: integers beside floats, int64
// beside uint64, numbers of a wider kind than the tensor's. bfloat16, which neither has, is a float like float16; the two
// of them together are float32.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>

#include "forklift/ops.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::ops {

enum class Kind : std::uint8_t {
  kBool,
  kUnsigned,
  kSigned,
  kReal,
  kComplex
};
Kind kind_of(DType dtype) noexcept;
inline bool is_integer(DType dtype) noexcept {
  return kind_of(dtype) == Kind::kUnsigned || kind_of(dtype) == Kind::kSigned;
}
inline bool is_narrow(DType dtype) noexcept { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

DType promote(DType a, DType b) noexcept;
// Of a number beside a tensor of `dtype`.
DType dtype_with(const Number& number, DType dtype) noexcept;
// Of a number alone: bool, int64 (uint64 if it is so large), float32, complex64.
DType default_dtype(const Number& number) noexcept;
// Of the default dtypes of two numbers: that of the wider kind, so that an integer beside a real number is float32.
DType promote_numbers(DType a, DType b) noexcept;
DType result_type(const Operand* operands, std::size_t count) noexcept;

// What a function of real numbers is computed in: bool, int8 and uint8 in float16, 16 bits in float32, more in
// float64; floats and complex numbers as they are.
DType float_for(DType dtype) noexcept;

// The dtype that the operands are converted to, and thus the loop's. Nothing: there is no such operation on `common`.
// float16 and bfloat16 are left to the caller.
std::optional<DType> operands_dtype(kernels::UnaryOp op, DType common) noexcept;
std::optional<DType> operands_dtype(kernels::BinaryOp op, DType common) noexcept;

// May a result of `from` be written into a tensor of `to`? As NumPy's "same_kind".
bool may_convert(DType from, DType to) noexcept;

// Writes the number as an element of `dtype`. False: an integer that does not fit.
bool write_number(const Number& number, DType dtype, std::byte* out) noexcept;

}  // namespace forklift::inline abi_0_1::ops
