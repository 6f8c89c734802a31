// argmax and argmin: the extreme is found first, and then where it stands, so that both passes use vectors.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/loops.h"
#include "ops/elementwise.h"
#include "ops/job.h"
#include "ops/on_gpu.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/reduction.h"
#include "ops/walk.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using kernels::BinaryOp;
using kernels::ReduceOp;
using kernels::UnaryOp;

class ExtremeJob final : public TensorJob {
 public:
  // `axis` of `x`; `out` has the other dimensions, one element behind the other.
  ExtremeJob(const Tensor& x, std::size_t axis, bool largest, const Tensor& out, std::int64_t pieces)
      : TensorJob(largest ? "argmax" : "argmin", pieces, out.nbytes()),
        pieces_(pieces),
        length_(x.shape()[axis]) {
    reads(x);
    writes(out);
    in_ = address(x);
    out_ = address(out);
    step_ = x.strides()[axis] * static_cast<std::int64_t>(x.item_size());
    Dims shape = x.shape();
    Dims strides = x.strides();
    shape.erase(axis);
    strides.erase(axis);
    lines_.begin(shape);
    lines_.add(shape, strides, x.item_size());
    lines_.add(shape, c_strides(shape), sizeof(std::int64_t));
    lines_.finish();
    reduce_ = kernels::loops().reduce(largest ? ReduceOp::kMax : ReduceOp::kMin, x.dtype());
    equal_ = kernels::loops().binary(BinaryOp::kEqual, x.dtype());
    isnan_ = kernels::loops().unary(UnaryOp::kIsNan, x.dtype());
  }

 private:
  void run(std::int64_t piece) noexcept override {
    const std::int64_t size = lines_.size();
    const auto share = [&](std::int64_t number) {
      return size / pieces_ * number + size % pieces_ * number / pieces_;
    };
    lines_.for_each(share(piece), share(piece + 1), [&](const std::int64_t* offsets, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t index = find(in_ + offsets[0] + i * lines_.inner_step(0));
        std::memcpy(out_ + offsets[1] + i * lines_.inner_step(1), &index, sizeof index);
      }
    });
  }

  std::int64_t find(const std::byte* line) const noexcept {
    alignas(16) std::byte extreme[16];
    reduce_.start(extreme);
    reduce_.along(line, step_, extreme, length_);
    std::byte nan{0};
    isnan_(extreme, 0, &nan, 1, 1);
    std::byte hits[kRun];
    for (std::int64_t done = 0; done < length_; done += kRun) {
      const std::int64_t run = std::min(kRun, length_ - done);
      if (nan != std::byte{0}) {
        isnan_(line + done * step_, step_, hits, 1, run);
      } else {
        equal_(line + done * step_, step_, extreme, 0, hits, 1, run);
      }
      if (const void* hit = std::memchr(hits, 1, static_cast<std::size_t>(run)))
        return done + (static_cast<const std::byte*>(hit) - hits);
    }
    return 0;  // another process has changed the elements meanwhile
  }

  const std::int64_t pieces_;
  const std::int64_t length_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::int64_t step_ = 0;
  Walk lines_;
  kernels::ReduceLoops reduce_;
  kernels::BinaryLoop equal_ = nullptr;
  kernels::UnaryLoop isnan_ = nullptr;
};

}  // namespace

Result<Tensor> index_of_extreme(const Tensor& x, bool largest, std::optional<std::int64_t> axis,
                                bool keepdims) {
  const std::string_view name = largest ? "argmax" : "argmin";
  const auto refused = [&](std::string_view why) {
    return Status(Code::kInvalid, describe(name, {&x}) + ": " + std::string(why));
  };
  if (kind_of(x.dtype()) == Kind::kComplex) return refused("no such operation on complex numbers");
  std::optional<Dims> axes;
  if (axis) axes = Dims{*axis};
  Result<std::vector<bool>> named = named_axes(axes, x.ndim());
  if (!named) return refused(named.status().what());
  Tensor source = x;
  const device::cuda::Queue* const queue = queue_of(x);
  const bool widens = is_narrow(x.dtype()) && queue == nullptr;  // a GPU's kernels read any dtype
  if (widens || (!axis && !x.is_contiguous())) {
    Result<Tensor> copy = convert(x, widens ? DType::kFloat32 : x.dtype());
    if (!copy) return copy;
    source = *std::move(copy);
  }
  if (!axis) {
    Result<Tensor> flat = tensor::reshape(source, Dims{source.numel()});
    if (!flat) return flat;
    source = *std::move(flat);
  }
  const std::size_t dim =
      axis ? static_cast<std::size_t>(std::find(named->begin(), named->end(), true) - named->begin()) : 0;
  Dims shape = source.shape();
  shape.erase(dim);
  Result<Place> where = place_of(name, {&x});
  if (!where) return where.status();
  Result<Tensor> out = where->make(shape, DType::kInt64);
  if (!out) return out;
  if (source.shape()[dim] == 0) return refused("no elements have no extreme");
  if (queue != nullptr) {
    std::vector<bool> reduced(source.ndim(), false);
    reduced[dim] = true;
    const GpuReduction what{.name = name, .op = largest ? ReduceOp::kMax : ReduceOp::kMin, .index = true};
    if (Status status = reduce_on_gpu(*queue, what, source, reduced, *out); !status) return status;
  } else if (out->numel() != 0) {
    const double nanoseconds = static_cast<double>(source.numel()) * 0.4;
    const auto job = std::make_shared<ExtremeJob>(source, dim, largest, *out,
                                                  std::min(pieces_for(nanoseconds), out->numel()));
    if (Status status = dispatch(job, nanoseconds); !status) return status;
  }
  if (!keepdims) return out;
  Dims kept = x.shape();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!axis || i == dim) kept[i] = 1;
  }
  return tensor::reshape(*out, std::move(kept));
}

}  // namespace forklift::inline abi_0_1::ops
