// The innermost loops of operations, over elements at a fixed distance, for the instructions that this processor has.
//
//   const UnaryLoop loop = loops().unary(UnaryOp::kExp, DType::kFloat32);
//   loop(in, 4, out, 4, n);                                   // contiguous
//   loops().binary(BinaryOp::kAdd, DType::kFloat64)(a, 8, b, 0, out, 8, n);    // b is one number
//
// The files in isa/ are compiled once for each set of instructions; loops() chooses among them when it is first
// called. FORKLIFT_CPU (base, avx2, avx512) makes it choose all of one of them.
//
// Both operands and the result of a loop have one dtype, except that comparisons, logical operations and isnan … make
// bools, and abs, real and imag of complex numbers make real ones. float16 and bfloat16 have casts only: they are
// computed in float32. A bool is true if its byte is not zero, since another process may have written any.
//
// Steps are in bytes, and may be zero or negative. The result may be one of the operands, element on element; any other
// overlap is the caller's error. Addresses are aligned for the dtype. Division of integers by zero gives 0, as
// NumPy's does, and integers wrap around.
//
// Thread and process safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "forklift/dtype.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::kernels {

using UnaryLoop = void (*)(const std::byte* in, std::ptrdiff_t in_step, std::byte* out,
                           std::ptrdiff_t out_step, std::ptrdiff_t count);
using BinaryLoop = void (*)(const std::byte* a, std::ptrdiff_t a_step, const std::byte* b,
                            std::ptrdiff_t b_step, std::byte* out, std::ptrdiff_t out_step,
                            std::ptrdiff_t count);
// out[i] = mask[i] ? a[i] : b[i], of items of one size.
using SelectLoop = void (*)(const std::byte* mask, std::ptrdiff_t mask_step, const std::byte* a,
                            std::ptrdiff_t a_step, const std::byte* b, std::ptrdiff_t b_step, std::byte* out,
                            std::ptrdiff_t out_step, std::ptrdiff_t count);

// A reduction's accumulator and its parts. `into` holds what was accumulated, of accumulator_of()'s dtype.
struct ReduceLoops {
  // *into = *into op in[0] op in[1] ...: along elements, one accumulator.
  void (*along)(const std::byte* in, std::ptrdiff_t in_step, std::byte* into, std::ptrdiff_t count) = nullptr;
  // into[i] = into[i] op in[i], the accumulators lying side by side.
  void (*across)(const std::byte* in, std::ptrdiff_t in_step, std::byte* into,
                 std::ptrdiff_t count) = nullptr;
  // *into = *into op *other.
  void (*merge)(const std::byte* other, std::byte* into) = nullptr;
  // What an accumulator begins with.
  void (*start)(std::byte* into) = nullptr;
};

// A matrix; steps count elements. Of an operand one of the two steps is 1, of a result the column's.
struct MatrixView {
  std::byte* data;
  std::ptrdiff_t rows;
  std::ptrdiff_t columns;
  std::ptrdiff_t row_step;
  std::ptrdiff_t column_step;
};
// out = a b.
using MatrixLoop = void (*)(const MatrixView& a, const MatrixView& b, const MatrixView& out);

struct Loops {
  const char* instructions;  // "avx512"
  // Each is null where there is no such loop.
  UnaryLoop (*unary)(UnaryOp op, DType dtype) noexcept;
  BinaryLoop (*binary)(BinaryOp op, DType dtype) noexcept;
  UnaryLoop (*cast)(DType from, DType to) noexcept;
  SelectLoop (*select)(std::size_t item_size) noexcept;
  ReduceLoops (*reduce)(ReduceOp op, DType dtype) noexcept;
  MatrixLoop (*matmul)(DType dtype) noexcept;
  // The same loops with stores that go past the caches: faster for results that no cache holds, and slower for all
  // others and for results that are an operand. Only of what takes less time than the memory.
  UnaryLoop (*streaming_unary)(UnaryOp op, DType dtype) noexcept;
  BinaryLoop (*streaming_binary)(BinaryOp op, DType dtype) noexcept;
};

// For this processor.
const Loops& loops() noexcept;

// Complex numbers' functions, which have one variant only: null for what is none.
UnaryLoop complex_function(UnaryOp op, DType dtype) noexcept;
BinaryLoop complex_power(DType dtype) noexcept;

// The dtype of an operation's result, both operands being of `dtype`.
DType result_of(UnaryOp op, DType dtype) noexcept;
DType result_of(BinaryOp op, DType dtype) noexcept;
// The dtype in which a reduction accumulates: sums of float32 in float64, so that their error does not grow with the
// number of elements.
DType accumulator_of(ReduceOp op, DType dtype) noexcept;

}  // namespace forklift::inline abi_0_1::kernels
