// Sorting, and searching in what is sorted.
//
//   Result<Tensor> rows = sorted(x, {.axis = 1, .descending = true});
//   Result<Tensor> order = sorting_order(x, {});                       // int64
//
// NaN comes last in either order. Equal elements keep their order; -0.0 and 0.0 are equal, but sorted() puts -0.0 first.
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <optional>

#include "forklift/sorting.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops {

Result<Tensor> sorted(const Tensor& x, const SortOrder& how);
Result<Tensor> sorting_order(const Tensor& x, const SortOrder& how);

// The places at which elements would have to be inserted into `line`, which is sorted (by `sorter` if there is one).
Result<Tensor> insertion_places(const Tensor& line, const Tensor& values, bool right,
                                const std::optional<Tensor>& sorter);
// bool: which elements of `x` are among the elements of `set`? With `invert`: which are not?
Result<Tensor> membership(const Tensor& x, const Tensor& set, bool invert);

// Of the flattened tensor, in ascending order. Each NaN is a value of its own. Complete on return.
Result<Tensor> distinct_values(const Tensor& x);
Result<Unique> distinct_elements(const Tensor& x);

}  // namespace forklift::inline abi_0_1::ops
