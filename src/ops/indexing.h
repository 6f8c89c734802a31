// Elements by their indices: what x[index] names, and copies of it.
//
//   Result<Selection> chosen = select_items(x, index);       // kInvalid: an index out of range
//   Result<Tensor> copy = gather(x, *chosen);
//   Status status = scatter(x, *chosen, 0);
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forklift/indexing.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops {

// The elements that an index names.
struct Selection {
  // With numbers and slices alone the elements themselves; else those of the dimensions that no tensor is an index for,
  // seen from the first element of the others.
  Tensor view;
  // Where the other dimensions begin, in bytes from the view, one for each combination of indices. Null: there are none.
  std::shared_ptr<const std::vector<std::int64_t>> places;
  // Of the combinations, and where they stand among the view's dimensions.
  Dims places_shape;
  std::size_t position = 0;

  bool is_view() const noexcept { return places == nullptr; }
  // Of all elements.
  Dims shape() const;
};

Result<Selection> select_items(const Tensor& x, std::span<const Index> index);
// The view, or a copy.
Result<Tensor> gather(const Tensor& x, const Selection& chosen);
// The value is broadcast and converted as `out` is.
Status scatter(const Tensor& x, const Selection& chosen, const Operand& value);

// What take() names. Without an axis `x` has one dimension.
Result<Selection> select_taken(const Tensor& x, const Tensor& indices, std::int64_t axis);
Result<Tensor> taken(const Tensor& x, const Tensor& indices, std::int64_t axis);

// Are all indices within that dimension?
Status check_along(const Tensor& x, const Tensor& indices, std::int64_t axis);
// Precondition: check_along().
Result<Tensor> take_along(const Tensor& x, const Tensor& indices, std::int64_t axis);

// For each dimension the indices of the elements that are not zero: rows of one tensor. Complete on return.
Result<std::vector<Tensor>> nonzero_places(const Tensor& x);

}  // namespace forklift::inline abi_0_1::ops
