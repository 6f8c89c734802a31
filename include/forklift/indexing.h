// Elements by their indices, and tensors rearranged: more of forklift::ops.
//
//   Tensor x = ops::arange(0, 12).reshape({3, 4});
//   Tensor rows = ops::at(x, {ops::Slice{0, 2}, ops::all_others});       // a view, as Python's x[0:2, ...]
//   Tensor picked = ops::at(x, {row_indices, column_indices});           // a copy: one element of each pair
//   ops::set(x, {ops::greater(x, 5)}, 0);                                // where the mask holds
//   Tensor some = ops::take(x, row_indices, 0);
//   Tensor turned = ops::roll(x, {1}, Dims{0});
//
// Indices are those of NumPy: numbers and slices make views; tensors of integers, which are broadcast, and of bools make
// copies. Negative ones count from the end. Indices are looked at before a function returns, elements when they are there.
//
// Errors: as forklift/ops.h; kInvalid, naming the index, the axis and its length, for an index out of range. Of values
// that do not fit the dtype: as `out` does. Ownership, thread safety, process safety: as forklift/ops.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "forklift/ops.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::ops {

// Python's start:stop:step, with its clamping.
struct Slice {
  // Left out: the first element, or the last one if the step is negative.
  std::optional<std::int64_t> start = std::nullopt;
  // Left out: behind the last element.
  std::optional<std::int64_t> stop = std::nullopt;
  // Not zero.
  std::int64_t step = 1;
};
// Python's None: a new dimension of length one.
struct NewAxis {};
// Python's Ellipsis: all dimensions that no other index is for.
struct AllOthers {};
// The values of these types.
inline constexpr NewAxis new_axis{};
inline constexpr AllOthers all_others{};

// What stands between the brackets for one dimension, or, a tensor of bools, for as many as it has.
class Index {
 public:
  // A number takes the dimension away.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T number) noexcept : value_(static_cast<std::int64_t>(number)) {}
  // Some of the elements.
  Index(Slice slice) noexcept : value_(slice) {}
  // Of no dimension that there is.
  Index(NewAxis axis) noexcept : value_(axis) {}
  // At most one in an index.
  Index(AllOthers others) noexcept : value_(others) {}
  // Integers: these elements. Bools: where they hold; their shape is that of the dimensions.
  Index(Tensor tensor) noexcept : value_(std::move(tensor)) {}

  // Which of them it is.
  using Value = std::variant<std::int64_t, Slice, NewAxis, AllOthers, Tensor>;
  const Value& value() const noexcept { return value_; }

 private:
  Value value_;
};

// x[index]: a view if all are numbers and slices, else a copy.
Tensor at(const Tensor& x, std::span<const Index> index);
inline Tensor at(const Tensor& x, std::initializer_list<Index> index) {
  return at(x, std::span(index.begin(), index.size()));
}
// x[index] = value, which is broadcast. Of an element that is named several times the last value stays.
void set(const Tensor& x, std::span<const Index> index, const Operand& value);
inline void set(const Tensor& x, std::initializer_list<Index> index, const Operand& value) {
  set(x, std::span(index.begin(), index.size()), value);
}

// The elements at these indices along a dimension; without one of the flattened tensor.
Tensor take(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> axis = std::nullopt);
// Along a dimension the elements at indices of its own for each line, as argsort() gives them. The other dimensions are
// broadcast.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis = -1);
// Each element so many times, along a dimension or of the flattened tensor.
Tensor repeat(const Tensor& x, std::int64_t count, std::optional<std::int64_t> axis = std::nullopt);
// The same with a number for each element.
Tensor repeat(const Tensor& x, const Tensor& counts, std::optional<std::int64_t> axis = std::nullopt);
// Turned by so many places; what leaves at the end comes in at the beginning. Without axes (then there is one shift) the
// flattened tensor is turned.
Tensor roll(const Tensor& x, const Dims& shifts, const std::optional<Dims>& axes = std::nullopt);
// The tensor side by side so many times along each of its last dimensions.
Tensor tile(const Tensor& x, const Dims& repetitions);

// A view with some dimensions at other places; the others keep their order.
Tensor moveaxis(const Tensor& x, const Dims& from, const Dims& to);
// A view with its last two dimensions exchanged.
Tensor matrix_transpose(const Tensor& x);
// Views without that dimension, one for each of its indices.
std::vector<Tensor> unstack(const Tensor& x, std::int64_t axis = 0);
// Read-only views of one shape.
std::vector<Tensor> broadcast_arrays(std::span<const Tensor> tensors);
// For tensors of one dimension the coordinates of all points of their grid. With `xy` the first two dimensions are
// exchanged, as for matrices.
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, bool xy = true);

// A copy with zeros above the k-th diagonal of the last two dimensions.
Tensor tril(const Tensor& x, std::int64_t k = 0);
// A copy with zeros below the k-th diagonal.
Tensor triu(const Tensor& x, std::int64_t k = 0);
// Ones on the k-th diagonal, else zeros. Without columns as many as rows.
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
           DType dtype = DType::kFloat32);

}  // namespace forklift::inline abi_0_1::ops
