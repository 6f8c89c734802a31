// Operations that compute each element of the result from the same element of the operands.
//
//   Result<Tensor> sum = binary(kernels::BinaryOp::kAdd, a, 1, {});
//
// Errors: as forklift/ops.h says, as Results.
// Thread safety: as forklift/ops.h.
#pragma once

#include <optional>

#include "forklift/ops.h"
#include "forklift/status.h"
#include "kernels/opcodes.h"

namespace forklift::inline abi_0_1::ops {

Result<Tensor> unary(kernels::UnaryOp op, const Operand& x, Out out);
Result<Tensor> binary(kernels::BinaryOp op, const Operand& a, const Operand& b, Out out);
Result<Tensor> select(const Operand& condition, const Operand& a, const Operand& b, Out out);
Result<Tensor> clamp(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
                     Out out);
// A copy with another dtype, or the same.
Result<Tensor> convert(const Tensor& x, DType dtype);
// `x`, broadcast to the shape of `into`, converted to its dtype whatever gets lost.
Status assign(const Tensor& into, const Operand& x);

// Tensor::fill and Tensor::copy_from, of tensors on a GPU, too. `item` is an element of `dtype`. kInvalid: another dtype or
// shape, read-only, a device that the CPU cannot touch and that computes nothing itself.
Status fill(const Tensor& into, DType dtype, const void* item);
Status copy(const Tensor& into, const Tensor& source);

}  // namespace forklift::inline abi_0_1::ops
