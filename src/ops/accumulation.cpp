#include "ops/accumulation.h"

#include <string>
#include <utility>
#include <vector>

#include "ops/arrangement.h"
#include "ops/element_type.h"
#include "ops/elementwise.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/reduction.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using kernels::BinaryOp;
using kernels::ReduceOp;

// What elements of T are accumulated in. Integers wrap around, so they are taken without their sign.
template <class T>
using TotalOf = std::conditional_t<is_complex_v<T>, std::complex<double>,
                                   std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>>;

template <class T>
TotalOf<T> widened(T value) noexcept {
  if constexpr (is_narrow_v<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<TotalOf<T>>(value);
  }
}

template <class T>
T narrowed(TotalOf<T> total) noexcept {
  if constexpr (is_narrow_v<T>) {
    return T(static_cast<float>(total));
  } else {
    return static_cast<T>(total);
  }
}

// One line: its elements, where the results go, and whether they begin with that of nothing.
template <class T>
void accumulate_line(bool is_sum, const std::byte* in, std::ptrdiff_t in_step, std::byte* out,
                     std::ptrdiff_t out_step, std::int64_t length, bool initial) noexcept {
  auto total = is_sum ? TotalOf<T>(0) : TotalOf<T>(1);
  if (initial) {
    store(out, narrowed<T>(total));
    out += out_step;
  }
  for (std::int64_t i = 0; i < length; ++i) {
    const auto value = widened(load<T>(in + i * in_step));
    total = is_sum ? total + value : total * value;
    store(out + i * out_step, narrowed<T>(total));
  }
}

Dims without(const Dims& dims, std::size_t axis) {
  Dims rest = dims;
  rest.erase(axis);
  return rest;
}

// `x` has the dtype of `out`.
Status accumulate_lines(ReduceOp op, const Tensor& x, const Tensor& out, std::size_t axis, bool initial) {
  const Dims shape = without(x.shape(), axis);
  Walk walk;
  walk.begin(shape);
  walk.add(shape, without(x.strides(), axis), x.item_size());
  walk.add(shape, without(out.strides(), axis), out.item_size());
  walk.finish();
  const auto item = static_cast<std::ptrdiff_t>(x.item_size());
  const std::ptrdiff_t in_step = x.strides()[axis] * item;
  const std::ptrdiff_t out_step = out.strides()[axis] * item;
  return with_element(x.dtype(), [&](auto zero) {
    return compute_range(op == ReduceOp::kSum ? "cumulative_sum" : "cumulative_prod", {&x}, out, walk.size(),
                         static_cast<double>(out.numel()) * 1.5,
                         [=, from = address_of(x), to = address_of(out), length = x.shape()[axis]](
                             std::int64_t first, std::int64_t last) {
                           walk.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
                             for (std::int64_t i = 0; i < count; ++i) {
                               accumulate_line<decltype(zero)>(
                                   op == ReduceOp::kSum, from + offsets[0] + i * walk.inner_step(0), in_step,
                                   to + offsets[1] + i * walk.inner_step(1), out_step, length, initial);
                             }
                           });
                         });
  });
}

DType accumulated_dtype(DType dtype) noexcept {
  if (kind_of(dtype) >= Kind::kReal) return dtype;
  return kind_of(dtype) == Kind::kUnsigned ? DType::kUInt64 : DType::kInt64;
}

}  // namespace

Result<Tensor> accumulate(ReduceOp op, const Tensor& x, const Accumulation& how) {
  const std::string_view name = op == ReduceOp::kSum ? "cumulative_sum" : "cumulative_prod";
  const auto refused = [&](std::string_view why) {
    return Status(Code::kInvalid, describe(name, {&x}) + ": " + std::string(why));
  };
  if (Status status = refuse_on_gpu(name, {&x}); !status) return status;
  if (x.ndim() == 0) return refused("a tensor without dimensions has no elements one after the other");
  if (!how.axis && x.ndim() != 1) return refused("axis must be named for more than one dimension");
  Result<std::size_t> axis = axis_of(name, x, how.axis.value_or(0), x.ndim());
  if (!axis) return axis.status();
  const DType dtype = how.dtype.value_or(accumulated_dtype(x.dtype()));
  if (dtype == DType::kBool) return refused("no such operation on bool");
  Result<Tensor> source = x.dtype() == dtype ? Result<Tensor>(x) : convert(x, dtype);
  if (!source) return source;
  Result<Place> where = place_of(name, {&x});
  if (!where) return where.status();
  Dims shape = x.shape();
  if (how.include_initial) ++shape[*axis];
  Result<Tensor> out = where->make(std::move(shape), dtype);
  if (!out || out->numel() == 0) return out;
  if (Status status = accumulate_lines(op, *source, *out, *axis, how.include_initial); !status) return status;
  return out;
}

Result<Tensor> differences(const Tensor& x, std::int64_t axis, std::int64_t n,
                           const std::optional<Tensor>& prepend, const std::optional<Tensor>& append) {
  if (n < 0) return {Code::kInvalid, describe("diff", {&x}) + ": n is " + std::to_string(n)};
  Result<std::size_t> dim = axis_of("diff", x, axis, x.ndim());
  if (!dim) return dim.status();
  std::vector<Tensor> parts;
  if (prepend) parts.push_back(*prepend);
  parts.push_back(x);
  if (append) parts.push_back(*append);
  Result<Tensor> result = parts.size() == 1 ? (n == 0 ? convert(x, x.dtype()) : Result<Tensor>(x))
                                            : concatenate(parts, static_cast<std::int64_t>(*dim));
  for (std::int64_t round = 0; round < n && result; ++round) {
    const auto along = static_cast<std::int64_t>(*dim);
    const Tensor whole = *std::move(result);
    const BinaryOp op = whole.dtype() == DType::kBool ? BinaryOp::kNotEqual : BinaryOp::kSubtract;
    Result<Tensor> later = tensor::slice(whole, along, 1, std::nullopt, 1);
    Result<Tensor> earlier = tensor::slice(whole, along, std::nullopt, -1, 1);
    if (!later || !earlier) return later ? earlier : later;
    result = binary(op, *later, *earlier, {});
  }
  return result;
}

Result<Tensor> count_of_nonzero(const Tensor& x, const std::optional<Dims>& axes, bool keepdims) {
  Result<std::vector<bool>> named = named_axes(axes, x.ndim());
  if (!named)
    return Status(Code::kInvalid,
                  describe("count_nonzero", {&x}) + ": " + std::string(named.status().what()));
  Result<Tensor> truths = x.dtype() == DType::kBool ? Result<Tensor>(x) : convert(x, DType::kBool);
  return truths ? reduce(ReduceOp::kSum, *truths, {axes, keepdims, std::nullopt}, {}) : truths;
}

}  // namespace forklift::inline abi_0_1::ops
