// Sorting, searching, sets, and sums along a dimension: more of forklift::ops.
//
//   Tensor x = ops::arange(0, 12).reshape({3, 4});
//   Tensor rows = ops::sort(x, {.axis = 1, .descending = true});
//   Tensor order = ops::argsort(x);                               // int64
//   auto [values, indices, inverse, counts] = ops::unique_all(x);
//   std::vector<Tensor> where = ops::nonzero(ops::greater(x, 5)); // one tensor of indices a dimension
//   Tensor totals = ops::cumulative_sum(x, {.axis = 0});
//
// Names and results are those of the Python array API standard, and NumPy's where the standard leaves them open.
// Complex numbers are ordered by their real parts, then by their imaginary parts. NaN comes last, in descending order
// too, and is equal to nothing. What has a shape that depends on the elements (unique_*, nonzero) is computed before it is
// returned.
//
// Errors, ownership, thread safety, process safety: as forklift/ops.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "forklift/dtype.h"
#include "forklift/ops.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops {

// Along which dimension, and in which direction. Equal elements always keep their order.
struct SortOrder {
  // Negative: from the end.
  std::int64_t axis = -1;
  // From the largest to the smallest.
  bool descending = false;
};

// A copy, sorted along a dimension. kInvalid for a tensor without dimensions.
Tensor sort(const Tensor& x, const SortOrder& how = {});
// The indices (int64) that sort() would take its elements from.
Tensor argsort(const Tensor& x, const SortOrder& how = {});

// Before or behind the elements that are equal.
enum class Side : std::uint8_t {
  kBefore,
  kAfter
};
// Of each value the index (int64) at which it would have to be inserted into `sorted`, which has one dimension. With
// `sorter` the indices that sort `sorted`, as argsort() gives them.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, Side side = Side::kBefore,
                    const std::optional<Tensor>& sorter = std::nullopt);
// bool: which elements of `x` are among those of `set`? With `invert`: which are not?
Tensor isin(const Tensor& x, const Tensor& set, bool invert = false);

// What unique_all() finds.
struct Unique {
  // The distinct elements in ascending order.
  Tensor values;
  // Of each value the index of its first occurrence in the flattened tensor.
  Tensor indices;
  // For each element of the tensor the index of its value; of the tensor's shape.
  Tensor inverse_indices;
  // How often each value occurs.
  Tensor counts;
};
// The distinct elements, in ascending order. Each NaN is one of its own.
Tensor unique_values(const Tensor& x);
// The same with the places where they are found.
Unique unique_all(const Tensor& x);

// Of each dimension the indices (int64) of the elements that are not zero, in C order. kInvalid for a tensor without
// dimensions.
std::vector<Tensor> nonzero(const Tensor& x);
// How many elements are not zero, as int64.
Tensor count_nonzero(const Tensor& x, const std::optional<Dims>& axes = std::nullopt, bool keepdims = false);

// Along which dimension, and how.
struct Accumulation {
  // May be left out for a tensor of one dimension.
  std::optional<std::int64_t> axis = std::nullopt;
  // Convert to this before; without it sums and products of narrow integers are of 64 bits.
  std::optional<DType> dtype = std::nullopt;
  // Begin with the sum or product of nothing, so that there is one more result.
  bool include_initial = false;
};
// The sums of the elements so far. Those of float16, bfloat16, float32 and complex64 are accumulated in float64.
Tensor cumulative_sum(const Tensor& x, const Accumulation& how = {});
// The products of the elements so far.
Tensor cumulative_prod(const Tensor& x, const Accumulation& how = {});
// The differences of neighbours, `n` times over; of bools whether they differ. `prepend` and `append` are joined to `x`
// before.
Tensor diff(const Tensor& x, std::int64_t axis = -1, std::int64_t n = 1,
            const std::optional<Tensor>& prepend = std::nullopt,
            const std::optional<Tensor>& append = std::nullopt);

}  // namespace forklift::inline abi_0_1::ops
