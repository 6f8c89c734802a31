// Elements of a tensor as Python numbers, and Python's indexing. All throw nanobind's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "forklift/dlpack.h"
#include "forklift/tensor.h"

namespace forklift::py {

inline constexpr int dlpack_cpu = dlpack::kCpu;

// The view that tensor[key] is: integers, slices, None for a new dimension of length one, one Ellipsis, in a tuple or alone.
Tensor index_tensor(const Tensor& tensor, nanobind::handle key);
// The one element of a tensor of one element.
nanobind::object only_item(const Tensor& tensor);
// From dimension `dim` on, the first element being `offset` elements away from the tensor's first.
nanobind::object nested_list(const Tensor& tensor, std::size_t dim, std::int64_t offset);
// Sets every element to a Python number. ValueError if it is read-only, OverflowError if it does not fit.
void fill_with(Tensor& tensor, nanobind::handle value);

}  // namespace forklift::py
