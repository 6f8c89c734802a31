// The functions of forklift/sorting.h. What they do is in the ops room.
#include "forklift/sorting.h"

#include "api/attached.h"
#include "ops/accumulation.h"
#include "ops/indexing.h"
#include "ops/sorting.h"

namespace forklift::inline abi_0_1::ops {

Tensor sort(const Tensor& x, const SortOrder& how) { return value_or_throw(sorted(x, how)); }
Tensor argsort(const Tensor& x, const SortOrder& how) { return value_or_throw(sorting_order(x, how)); }
Tensor searchsorted(const Tensor& sorted, const Tensor& values, Side side,
                    const std::optional<Tensor>& sorter) {
  return value_or_throw(insertion_places(sorted, values, side == Side::kAfter, sorter));
}
Tensor isin(const Tensor& x, const Tensor& set, bool invert) {
  return value_or_throw(membership(x, set, invert));
}
Tensor unique_values(const Tensor& x) { return value_or_throw(distinct_values(x)); }
Unique unique_all(const Tensor& x) { return value_or_throw(distinct_elements(x)); }
std::vector<Tensor> nonzero(const Tensor& x) { return value_or_throw(nonzero_places(x)); }
Tensor count_nonzero(const Tensor& x, const std::optional<Dims>& axes, bool keepdims) {
  return value_or_throw(count_of_nonzero(x, axes, keepdims));
}
Tensor cumulative_sum(const Tensor& x, const Accumulation& how) {
  return value_or_throw(accumulate(kernels::ReduceOp::kSum, x, how));
}
Tensor cumulative_prod(const Tensor& x, const Accumulation& how) {
  return value_or_throw(accumulate(kernels::ReduceOp::kProd, x, how));
}
Tensor diff(const Tensor& x, std::int64_t axis, std::int64_t n, const std::optional<Tensor>& prepend,
            const std::optional<Tensor>& append) {
  return value_or_throw(differences(x, axis, n, prepend, append));
}

}  // namespace forklift::inline abi_0_1::ops
