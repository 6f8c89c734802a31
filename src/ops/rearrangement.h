// Elements at other places, several times over, or in several tensors.
//
//   Result<Tensor> turned = rolled(x, {1}, Dims{0});
//   Result<Tensor> lower = triangle(x, 0, true);
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "forklift/indexing.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops {

// Each element as often as `counts` says: one number for all, or one for each.
Result<Tensor> repeated(const Tensor& x, const Tensor& counts, std::optional<std::int64_t> axis);
Result<Tensor> repeated(const Tensor& x, std::int64_t count, std::optional<std::int64_t> axis);
Result<Tensor> rolled(const Tensor& x, const Dims& shifts, const std::optional<Dims>& axes);
Result<Tensor> tiled(const Tensor& x, const Dims& repetitions);

// Views.
Result<Tensor> with_axes_moved(const Tensor& x, const Dims& from, const Dims& to);
Result<Tensor> with_matrices_turned(const Tensor& x);
Result<std::vector<Tensor>> apart(const Tensor& x, std::int64_t axis);
Result<std::vector<Tensor>> of_one_shape(std::span<const Tensor> tensors);

// Copies.
Result<std::vector<Tensor>> grid(std::span<const Tensor> tensors, bool xy);
// Zeros above the k-th diagonal (`lower`), or below.
Result<Tensor> triangle(const Tensor& x, std::int64_t k, bool lower);
Result<Tensor> with_diagonal_of_ones(std::int64_t rows, std::int64_t columns, std::int64_t k, DType dtype);

}  // namespace forklift::inline abi_0_1::ops
