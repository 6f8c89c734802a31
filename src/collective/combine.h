// Reductions over ranks: out[i] = x0[i] op x1[i] op x2[i] ..., always in that order.
//
//   if (Status status = check_reduction(Op::kSum, DType::kBool); !status) return status;    // kInvalid
//   combine(Op::kMean, DType::kFloat32, {x0, x1, x2}, out, count);
//
// The order is the ranks' for each element, wherever it is computed, so all ranks get the same bits (decisions/0223). float16 and
// bfloat16 are accumulated in float32 and rounded once. Integers wrap around; bools have min (all) and max (any).
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "collective/call.h"
#include "forklift/dtype.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::collective {

// kInvalid: there is no such reduction of elements of this type.
Status check_reduction(Op op, DType dtype);

// `out` may be one of the sources, and overlaps them in no other way. Precondition: check_reduction().
void combine(Op op, DType dtype, std::span<const std::byte* const> sources, std::byte* out,
             std::size_t count);

}  // namespace forklift::inline abi_0_1::collective
