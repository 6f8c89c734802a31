// Operations on so few elements that making a job of them takes longer than computing them.
//
//   if (are_few_and_alike(program, operands, dtype, out)) return compute_alike(program, operands, out);
//   ...                                                          // the result's shape, and the tensor for it
//   if (compute_few(program, operands, target)) return target;
//   ...                                                          // a job
//
// Thread safety: as forklift/ops.h.
#pragma once

#include <initializer_list>

#include "forklift/ops.h"
#include "ops/map_job.h"

namespace forklift::inline abi_0_1::ops {

// Are all operands tensors of few elements, of the loop's dtypes and one shape, and is the result, of `dtype`, the loop's?
// Then there is nothing to broadcast, to convert or to refuse.
bool are_few_and_alike(const Program& program, std::initializer_list<const Operand*> operands, DType dtype,
                       Out out) noexcept;

// Of such operands, into `out` or a new tensor. kNoSpace, kNotAttached.
Result<Tensor> compute_alike(const Program& program, std::initializer_list<const Operand*> operands, Out out);

// Computes elements that lie side by side, have the loop's dtypes, and have no queued operation working on them. False:
// nothing was done.
bool compute_few(const Program& program, std::initializer_list<const Operand*> operands,
                 const Tensor& target) noexcept;

}  // namespace forklift::inline abi_0_1::ops
