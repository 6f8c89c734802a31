#include "ops/linear_algebra.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/loops.h"
#include "ops/elementwise.h"
#include "ops/job.h"
#include "ops/on_gpu.h"
#include "ops/overlap.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

// A block of the result has at least so many rows or columns: below, packing the other operand costs too much.
constexpr std::int64_t kLeastBlock = 64;

// The last two dimensions of a tensor.
kernels::MatrixView matrix_of(const Tensor& tensor, std::byte* data) {
  const std::size_t last = tensor.ndim() - 1;
  return {data, tensor.shape()[last - 1], tensor.shape()[last], tensor.strides()[last - 1],
          tensor.strides()[last]};
}

class MatmulJob final : public TensorJob {
 public:
  // `blocks`: in how many parts each product's result is cut, along its longer side.
  MatmulJob(kernels::MatrixLoop loop, const Tensor& a, const Tensor& b, const Tensor& out,
            std::int64_t blocks)
      : TensorJob("matmul", products(out) * blocks, out.nbytes()), loop_(loop), blocks_(blocks) {
    reads(a);
    reads(b);
    writes(out);
    a_ = matrix_of(a, address(a));
    b_ = matrix_of(b, address(b));
    out_ = matrix_of(out, address(out));
    item_ = static_cast<std::ptrdiff_t>(out.item_size());
    const auto stack = [](const Dims& dims) { return DimSpan(dims.data(), dims.size() - 2); };
    stacks_.begin(stack(out.shape()));
    for (const Tensor* const each : {&a, &b, &out}) {
      stacks_.add(stack(each->shape()), stack(each->strides()), each->item_size());
    }
    stacks_.finish();
  }

  static std::int64_t products(const Tensor& out) {
    std::int64_t count = 1;
    for (std::size_t i = 0; i + 2 < out.ndim(); ++i) count *= out.shape()[i];
    return count;
  }

 private:
  void run(std::int64_t piece) noexcept override {
    const std::int64_t product = piece / blocks_;
    const std::int64_t block = piece % blocks_;
    stacks_.for_each(product, product + 1, [&](const std::int64_t* offsets, std::int64_t) {
      kernels::MatrixView a = a_;
      kernels::MatrixView b = b_;
      kernels::MatrixView out = out_;
      a.data += offsets[0];
      b.data += offsets[1];
      out.data += offsets[2];
      const bool by_rows = out.rows >= out.columns;
      const std::int64_t whole = by_rows ? out.rows : out.columns;
      const std::int64_t first = whole * block / blocks_;
      const std::int64_t length = whole * (block + 1) / blocks_ - first;
      if (by_rows) {
        a.data += first * a.row_step * item_;
        out.data += first * out.row_step * item_;
        a.rows = out.rows = length;
      } else {
        b.data += first * b.column_step * item_;
        out.data += first * out.column_step * item_;
        b.columns = out.columns = length;
      }
      loop_(a, b, out);
    });
  }

  const kernels::MatrixLoop loop_;
  const std::int64_t blocks_;
  kernels::MatrixView a_{};
  kernels::MatrixView b_{};
  kernels::MatrixView out_{};
  std::ptrdiff_t item_ = 0;
  Walk stacks_;
};

// With the dtype, with two dimensions at least, and one of the last two without gaps.
Result<Tensor> prepared(const Tensor& tensor, DType dtype, bool left) {
  Tensor result = tensor;
  if (tensor.dtype() != dtype) {
    Result<Tensor> converted = convert(tensor, dtype);
    if (!converted) return converted;
    result = *std::move(converted);
  }
  if (result.ndim() == 1) {
    Dims strides = left ? Dims{0, result.strides()[0]} : Dims{result.strides()[0], 1};
    const std::int64_t length = result.shape()[0];
    Dims shape = left ? Dims{1, length} : Dims{length, 1};
    if (left) strides[0] = std::max<std::int64_t>(length, 1);
    Result<Tensor> matrix = tensor::wrap_strided(result.storage(), dtype, std::move(shape),
                                                 std::move(strides), result.byte_offset(), result.readonly());
    if (!matrix) return matrix;
    result = *std::move(matrix);
  }
  const std::size_t last = result.ndim() - 1;
  const auto usable = [&](std::size_t inner, std::size_t outer) {
    return result.strides()[inner] == 1 &&
           result.strides()[outer] >= std::max<std::int64_t>(result.shape()[inner], 1);
  };
  if (usable(last, last - 1) || usable(last - 1, last)) return result;
  return convert(result, dtype);
}

// May the product be written into `out` at once, its rows being without gaps and no operand's?
bool takes_product(const Tensor& out, const Dims& shape, DType dtype, const Tensor& a, const Tensor& b) {
  const std::size_t last = shape.size() - 1;
  return !out.readonly() && out.dtype() == dtype && out.shape() == shape && out.numel() != 0 &&
         out.strides()[last] == 1 && out.strides()[last - 1] >= shape[last] && !shares_memory(out, a) &&
         !shares_memory(out, b);
}

}  // namespace

Result<Tensor> multiply_matrices(const Tensor& a, const Tensor& b, Out out) {
  const auto refused = [&](std::string_view why) {
    return Status(Code::kInvalid, describe("matmul", {&a, &b}) + ": " + std::string(why));
  };
  if (a.ndim() == 0 || b.ndim() == 0) return refused("an operand without dimensions; use multiply");
  const DType dtype = promote(a.dtype(), b.dtype());
  const DType added_in = is_narrow(dtype) ? DType::kFloat32 : dtype;
  kernels::MatrixLoop const loop = kernels::loops().matmul(added_in);
  if (loop == nullptr) return refused("no such operation on " + std::string(name(dtype)));
  // A GPU reads narrow numbers and adds their products up in float32.
  const device::cuda::Queue* const queue = queue_of(a);
  const DType computed = queue != nullptr ? dtype : added_in;
  if (queue != nullptr) {
    if (Result<Place> same = place_of("matmul", {&a, &b, out.tensor()}); !same) return same.status();
  }
  Result<Tensor> left = prepared(a, computed, true);
  if (!left) return left;
  Result<Tensor> right = prepared(b, computed, false);
  if (!right) return right;
  const std::int64_t rows = left->shape()[left->ndim() - 2];
  const std::int64_t columns = right->shape()[right->ndim() - 1];
  const std::int64_t depth = left->shape()[left->ndim() - 1];
  if (depth != right->shape()[right->ndim() - 2]) return refused("the inner lengths differ");
  const Dims left_stack(DimSpan(left->shape().data(), left->ndim() - 2));
  const Dims right_stack(DimSpan(right->shape().data(), right->ndim() - 2));
  Result<Dims> shape = broadcast_shapes({&left_stack, &right_stack});
  if (!shape) return refused(shape.status().what());
  Dims full = *shape;
  full.push_back(rows);
  full.push_back(columns);
  Result<Place> where = place_of("matmul", {&a, &b, out.tensor()});
  if (!where) return where.status();
  const bool direct = out.tensor() != nullptr && a.ndim() > 1 && b.ndim() > 1 &&
                      takes_product(*out.tensor(), full, computed, *left, *right);
  Result<Tensor> made = direct ? Result<Tensor>(*out.tensor()) : where->make(full, computed);
  if (!made) return made;
  if (made->numel() != 0 && queue != nullptr) {
    if (Status status = multiply_on_gpu(*queue, *left, *right, *made); !status) return status;
  } else if (made->numel() != 0) {
    const double nanoseconds = static_cast<double>(made->numel()) * static_cast<double>(depth) *
                               (kind_of(computed) == Kind::kReal ? 0.03 : 0.3);
    const std::int64_t longer = std::max(rows, columns);
    const std::int64_t blocks =
        std::min(pieces_for(nanoseconds), std::max<std::int64_t>(longer / kLeastBlock, 1));
    const auto threads = static_cast<std::int64_t>(runtime::Executor::instance().threads());
    // Each block packs the whole of the other operand: more blocks than threads cost more than they even out.
    const auto job = std::make_shared<MatmulJob>(loop, *left, *right, *made, std::min(blocks, threads));
    if (Status status = dispatch(job, nanoseconds); !status) return status;
  }
  if (direct) return made;
  Dims squeezed = *std::move(shape);
  if (a.ndim() > 1) squeezed.push_back(rows);
  if (b.ndim() > 1) squeezed.push_back(columns);
  Result<Tensor> result = tensor::reshape(*made, squeezed);
  if (result && dtype != computed) result = convert(*result, dtype);
  if (!result || out.tensor() == nullptr) return result;
  const Tensor& target = *out.tensor();
  if (!(target.shape() == squeezed))
    return refused("out=" + target.to_string() + " has not the result's shape, " + squeezed.to_string());
  if (!may_convert(dtype, target.dtype()))
    return refused("out=" + target.to_string() + " cannot hold the result");
  if (Status status = assign(target, *result); !status) return status;
  return target;
}

}  // namespace forklift::inline abi_0_1::ops
