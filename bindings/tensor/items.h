// Elements of a tensor as Python numbers, and Python's indexing. All throw nanobind's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "forklift/dlpack.h"
#include "forklift/tensor.h"
#include "ops/indexing.h"

namespace forklift::py {

inline constexpr int dlpack_cpu = dlpack::kCpu;
inline constexpr int dlpack_cuda = dlpack::kCuda;

// The elements that tensor[key] names: integers, slices, None, one Ellipsis, tensors, arrays and lists of integers or
// bools, in a tuple or alone. IndexError.
ops::Selection index_tensor(const Tensor& tensor, nanobind::handle key);
// tensor[key] = value.
void set_items(const Tensor& tensor, nanobind::handle key, nanobind::handle value);

// Calls `find`, whose Result is about indices: kInvalid becomes IndexError.
template <class Find>
auto require_index(bool without_lock, Find find) {
  std::optional<GilRelease> released;
  if (without_lock) released.emplace();
  auto found = find();
  released.reset();
  if (!found && found.status().code() == Code::kInvalid)
    throw nanobind::index_error(std::string(found.status().what()).c_str());
  return require(std::move(found));
}
// The one element of a tensor of one element.
nanobind::object only_item(const Tensor& tensor);
// From dimension `dim` on, the first element being `offset` elements away from the tensor's first.
nanobind::object nested_list(const Tensor& tensor, std::size_t dim, std::int64_t offset);
// Sets every element to a Python number. ValueError if it is read-only, OverflowError if it does not fit.
void fill_with(Tensor& tensor, nanobind::handle value);

}  // namespace forklift::py
