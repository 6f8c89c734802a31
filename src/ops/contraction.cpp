// Sums of products along some dimensions: vecdot and tensordot.
#include <string>
#include <utility>
#include <vector>

#include "ops/arrangement.h"
#include "ops/elementwise.h"
#include "ops/job.h"
#include "ops/linear_algebra.h"
#include "ops/promotion.h"
#include "ops/rearrangement.h"
#include "ops/reduction.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

Status do_not_fit(std::string_view name, const Tensor& a, const Tensor& b, const std::string& why) {
  return {Code::kInvalid, describe(name, {&a, &b}) + ": " + why};
}

// `x` as a matrix whose rows (`first`) or columns are the dimensions `contracted`; `rest`: the lengths of the others.
Result<Tensor> as_matrix(const Tensor& x, const std::vector<std::size_t>& contracted, bool first,
                         Dims& rest) {
  std::vector<bool> is_contracted(x.ndim(), false);
  std::int64_t length = 1;
  for (const std::size_t dim : contracted) {
    is_contracted[dim] = true;
    length *= x.shape()[dim];
  }
  Dims free;
  std::int64_t others = 1;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    if (is_contracted[i]) continue;
    free.push_back(static_cast<std::int64_t>(i));
    rest.push_back(x.shape()[i]);
    others *= x.shape()[i];
  }
  Dims order;
  if (!first) order = free;
  for (const std::size_t dim : contracted) order.push_back(static_cast<std::int64_t>(dim));
  for (std::size_t i = 0; first && i < free.size(); ++i) order.push_back(free[i]);
  Result<Tensor> turned = tensor::permute(x, order);
  if (!turned) return turned;
  return rearrange(*turned, first ? Dims{length, others} : Dims{others, length});
}

}  // namespace

Result<Tensor> dot_along(const Tensor& a, const Tensor& b, std::int64_t axis) {
  Result<std::size_t> own = axis_of("vecdot", a, axis, a.ndim());
  Result<std::size_t> other = axis_of("vecdot", b, axis, b.ndim());
  if (!own || !other) return own ? other.status() : own.status();
  if (a.shape()[*own] != b.shape()[*other]) return do_not_fit("vecdot", a, b, "the lengths differ");
  Result<Tensor> left = with_axes_moved(a, Dims{axis}, Dims{-1});
  Result<Tensor> right = with_axes_moved(b, Dims{axis}, Dims{-1});
  if (left && kind_of(a.dtype()) == Kind::kComplex) left = unary(kernels::UnaryOp::kConj, *left, {});
  if (!left || !right) return left ? right : left;
  Result<Tensor> products = binary(kernels::BinaryOp::kMultiply, *left, *right, {});
  if (!products) return products;
  if (products->dtype() == DType::kBool)
    return reduce(kernels::ReduceOp::kAny, *products, {Dims{-1}, false, std::nullopt}, {});
  return reduce(kernels::ReduceOp::kSum, *products, {Dims{-1}, false, products->dtype()}, {});
}

Result<Tensor> contract(const Tensor& a, const Tensor& b, const Dims& a_axes, const Dims& b_axes) {
  if (a_axes.size() != b_axes.size()) return do_not_fit("tensordot", a, b, "different numbers of axes");
  std::vector<std::size_t> left;
  std::vector<std::size_t> right;
  for (std::size_t i = 0; i < a_axes.size(); ++i) {
    Result<std::size_t> own = axis_of("tensordot", a, a_axes[i], a.ndim());
    Result<std::size_t> other = axis_of("tensordot", b, b_axes[i], b.ndim());
    if (!own || !other) return own ? other.status() : own.status();
    if (a.shape()[*own] != b.shape()[*other]) {
      return do_not_fit("tensordot", a, b,
                        "axis " + std::to_string(*own) + " of the one and axis " + std::to_string(*other) +
                            " of the other have different lengths");
    }
    left.push_back(*own);
    right.push_back(*other);
  }
  for (const auto& [axes, ndim] : {std::pair{&a_axes, a.ndim()}, std::pair{&b_axes, b.ndim()}}) {
    if (Result<std::vector<bool>> named = named_axes(*axes, ndim); !named)
      return do_not_fit("tensordot", a, b, std::string(named.status().what()));
  }
  Dims shape;
  Result<Tensor> rows = as_matrix(a, left, false, shape);
  Result<Tensor> columns = as_matrix(b, right, true, shape);
  if (!rows || !columns) return rows ? columns : rows;
  Result<Tensor> product = multiply_matrices(*rows, *columns, {});
  return product ? tensor::reshape(*product, std::move(shape)) : product;
}

}  // namespace forklift::inline abi_0_1::ops
