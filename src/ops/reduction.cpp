#include "ops/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

using kernels::ReduceOp;

// With fewer results than this, the pieces share the elements of each result instead of the results.
constexpr std::int64_t kFewResults = 256;

Status refused(std::string_view name, const Tensor& x, std::string_view why) {
  return {Code::kInvalid, describe(name, {&x}) + ": " + std::string(why)};
}

struct Plan {
  ReduceOp op{};
  kernels::ReduceLoops loops;
  DType accumulator{};
  std::int64_t divisor = 0;  // of a mean; 0: none
};

class ReduceJob final : public TensorJob {
 public:
  ReduceJob(std::string_view name, const Plan& plan, const Tensor& x, const Tensor& out,
            const std::vector<bool>& axes, std::int64_t pieces)
      : TensorJob(name, pieces, out.nbytes()), plan_(plan), pieces_(pieces) {
    reads(x);
    writes(out);
    in_ = address(x);
    out_ = address(out);
    Dims kept_shape;
    Dims kept_strides;
    Dims reduced_shape;
    Dims reduced_strides;
    for (std::size_t i = 0; i < x.ndim(); ++i) {
      (axes[i] ? reduced_shape : kept_shape).push_back(x.shape()[i]);
      (axes[i] ? reduced_strides : kept_strides).push_back(x.strides()[i]);
    }
    kept_.begin(kept_shape);
    kept_.add(kept_shape, kept_strides, x.item_size());
    kept_.add(kept_shape, c_strides(kept_shape), out.item_size());
    kept_.finish();
    reduced_.begin(reduced_shape);
    reduced_.add(reduced_shape, reduced_strides, x.item_size());
    reduced_.finish();
    across_ = kept_.ndim() > 0 &&
              (reduced_.ndim() == 0 || std::abs(kept_.inner_step(0)) < std::abs(reduced_.inner_step(0)));
    split_ = pieces > 1 && kept_.size() < kFewResults && reduced_.size() >= 2 * pieces;
    item_ = item_size(plan.accumulator);
    cast_ = kernels::loops().cast(plan.accumulator, out.dtype());
    if (split_) partial_.resize(static_cast<std::size_t>(pieces * kept_.size()) * item_);
  }

 private:
  void run(std::int64_t piece) noexcept override {
    if (split_) {
      std::byte* const mine = partial_.data() + static_cast<std::size_t>(piece * kept_.size()) * item_;
      std::int64_t done = 0;
      kept_.for_each(0, kept_.size(), [&](const std::int64_t* offsets, std::int64_t count) {
        accumulate(in_ + offsets[0], count, mine + static_cast<std::size_t>(done) * item_,
                   share(reduced_, piece), share(reduced_, piece + 1));
        done += count;
      });
      return;
    }
    kept_.for_each(
        share(kept_, piece), share(kept_, piece + 1), [&](const std::int64_t* offsets, std::int64_t count) {
          alignas(64) std::byte totals[kRun * kMostItemBytes];
          for (std::int64_t done = 0; done < count; done += kRun) {
            const std::int64_t results = std::min(kRun, count - done);
            accumulate(in_ + offsets[0] + done * kept_.inner_step(0), results, totals, 0, reduced_.size());
            store(totals, results, out_ + offsets[1] + done * kept_.inner_step(1), kept_.inner_step(1));
          }
        });
  }

  void combine() noexcept override {
    if (!split_) return;
    const std::int64_t results = kept_.size();
    for (std::int64_t piece = 1; piece < pieces_; ++piece) {
      for (std::int64_t i = 0; i < results; ++i) {
        plan_.loops.merge(partial_.data() + static_cast<std::size_t>(piece * results + i) * item_,
                          partial_.data() + static_cast<std::size_t>(i) * item_);
      }
    }
    std::int64_t done = 0;
    kept_.for_each(0, results, [&](const std::int64_t* offsets, std::int64_t count) {
      store(partial_.data() + static_cast<std::size_t>(done) * item_, count, out_ + offsets[1],
            kept_.inner_step(1));
      done += count;
    });
  }

  std::int64_t share(const Walk& walk, std::int64_t piece) const noexcept {
    return walk.size() / pieces_ * piece + walk.size() % pieces_ * piece / pieces_;
  }

  // Of `results` results that lie along the innermost kept dimension, the reduced elements [first, last) each.
  void accumulate(const std::byte* in, std::int64_t results, std::byte* totals, std::int64_t first,
                  std::int64_t last) const noexcept {
    const std::ptrdiff_t step = kept_.inner_step(0);
    const auto item = static_cast<std::ptrdiff_t>(item_);
    for (std::int64_t i = 0; i < results; ++i) plan_.loops.start(totals + i * item);
    if (across_) {
      const std::ptrdiff_t inner = reduced_.inner_step(0);
      reduced_.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) {
          plan_.loops.across(in + offsets[0] + k * inner, step, totals, results);
        }
      });
      return;
    }
    for (std::int64_t i = 0; i < results; ++i) {
      reduced_.for_each(first, last, [&](const std::int64_t* offsets, std::int64_t count) {
        plan_.loops.along(in + i * step + offsets[0], reduced_.inner_step(0), totals + i * item, count);
      });
    }
  }

  void store(std::byte* totals, std::int64_t results, std::byte* out, std::ptrdiff_t step) const noexcept {
    const auto item = static_cast<std::ptrdiff_t>(item_);
    if (plan_.divisor != 0) {  // a mean: its accumulators are float64 or complex128
      auto* const parts = reinterpret_cast<double*>(totals);
      const auto count = results * item / static_cast<std::ptrdiff_t>(sizeof(double));
      for (std::ptrdiff_t i = 0; i < count; ++i) parts[i] /= static_cast<double>(plan_.divisor);
    }
    cast_(totals, item, out, step, results);
  }

  const Plan plan_;
  const std::int64_t pieces_;
  Walk kept_;
  Walk reduced_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::size_t item_ = 0;
  kernels::UnaryLoop cast_ = nullptr;
  bool across_ = false;
  bool split_ = false;
  std::vector<std::byte> partial_;
};

Dims reduced_shape(const Dims& shape, const std::vector<bool>& axes, bool keepdims) {
  Dims result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!axes[i]) {
      result.push_back(shape[i]);
    } else if (keepdims) {
      result.push_back(1);
    }
  }
  return result;
}

std::int64_t reduced_count(const Dims& shape, const std::vector<bool>& axes) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) count *= axes[i] ? shape[i] : 1;
  return count;
}

// NumPy's: sums and products of narrow integers are int64 or uint64; a sum of float32 is float32.
DType reduced_dtype(ReduceOp op, DType dtype) {
  if (op == ReduceOp::kAll || op == ReduceOp::kAny) return DType::kBool;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin || kind_of(dtype) >= Kind::kReal) return dtype;
  return kind_of(dtype) == Kind::kUnsigned ? DType::kUInt64 : DType::kInt64;
}

// `x` has the dtype that the loops take.
Result<Tensor> run_reduction(std::string_view name, const Plan& plan, const Tensor& x,
                             const std::vector<bool>& axes, const Tensor& target) {
  const double nanoseconds = static_cast<double>(std::max(x.numel(), target.numel())) * 0.25;
  // The job writes results one behind the other, so another layout is filled from a copy.
  if (!target.is_contiguous() || overlaps(target, x)) {
    Result<Place> where = place_of(name, {&x, &target});
    if (!where) return where.status();
    Result<Tensor> apart = where->make(target.shape(), target.dtype());
    if (apart) apart = run_reduction(name, plan, x, axes, *apart);
    if (!apart) return apart;
    if (Status status = assign(target, *apart); !status) return status;
    return target;
  }
  if (target.numel() == 0) return target;
  if (const device::cuda::Queue* const queue = queue_of(target)) {
    const GpuReduction what{.name = name, .op = plan.op, .divisor = plan.divisor};
    if (Status status = reduce_on_gpu(*queue, what, x, axes, target); !status) return status;
    return target;
  }
  const auto job = std::make_shared<ReduceJob>(name, plan, x, target, axes, pieces_for(nanoseconds));
  if (Status status = dispatch(job, nanoseconds); !status) return status;
  return target;
}

Result<Tensor> place(std::string_view name, const Tensor& x, Dims shape, DType dtype, Out out) {
  Result<Place> where = place_of(name, {&x, out.tensor()});
  if (!where) return where.status();
  if (out.tensor() == nullptr) return where->make(std::move(shape), dtype);
  const Tensor& target = *out.tensor();
  if (target.readonly()) return refused(name, x, "out=" + target.to_string() + " is read-only");
  if (!(target.shape() == shape))
    return refused(name, x,
                   "out=" + target.to_string() + " has not the result's shape, " + shape.to_string());
  if (!may_convert(dtype, target.dtype()))
    return refused(
        name, x,
        "out=" + target.to_string() + " cannot hold a result of " + std::string(forklift::name(dtype)));
  return target;
}

}  // namespace

Result<std::vector<bool>> named_axes(const std::optional<Dims>& axes, std::size_t ndim) {
  std::vector<bool> named(ndim, !axes);
  if (!axes) return named;
  for (const std::int64_t axis : *axes) {
    const auto length = static_cast<std::int64_t>(ndim);
    if (axis < -length || axis >= length) {
      return {Code::kInvalid, "axis " + std::to_string(axis) + " is out of range for " +
                                  std::to_string(ndim) + " dimensions"};
    }
    const auto index = static_cast<std::size_t>(axis < 0 ? axis + length : axis);
    if (named[index]) return {Code::kInvalid, "axis " + std::to_string(axis) + " is named twice"};
    named[index] = true;
  }
  return named;
}

Result<Tensor> reduce(ReduceOp op, const Tensor& x, const Reduction& how, Out out) {
  const std::string_view name = kernels::name(op);
  Result<std::vector<bool>> axes = named_axes(how.axes, x.ndim());
  if (!axes) return refused(name, x, axes.status().what());
  if (how.dtype && *how.dtype != x.dtype()) {
    Result<Tensor> converted = convert(x, *how.dtype);
    if (!converted) return converted;
    return reduce(op, *converted, how, out);
  }
  const DType dtype = how.dtype ? *how.dtype : reduced_dtype(op, x.dtype());
  Tensor source = x;
  const DType read = is_narrow(x.dtype()) ? DType::kFloat32 : x.dtype();
  // A GPU's kernels read any dtype.
  if (read != x.dtype() && queue_of(x) == nullptr) {
    Result<Tensor> wide = convert(x, read);
    if (!wide) return wide;
    source = *std::move(wide);
  }
  const Plan plan{op, kernels::loops().reduce(op, read), kernels::accumulator_of(op, read)};
  if (plan.loops.along == nullptr)
    return refused(name, x, "no such operation on " + std::string(forklift::name(x.dtype())));
  Result<Tensor> target = place(name, x, reduced_shape(x.shape(), *axes, how.keepdims), dtype, out);
  if (!target) return target;
  const bool extreme = op == ReduceOp::kMax || op == ReduceOp::kMin;
  if (extreme && reduced_count(x.shape(), *axes) == 0)
    return refused(name, x, "no elements have no " + std::string(name));
  return run_reduction(name, plan, source, *axes, *target);
}

Result<Tensor> average(const Tensor& x, const Reduction& how, Out out) {
  Result<std::vector<bool>> axes = named_axes(how.axes, x.ndim());
  if (!axes) return refused("mean", x, axes.status().what());
  const DType computed = how.dtype ? *how.dtype : x.dtype();
  const DType dtype = kind_of(computed) < Kind::kReal ? DType::kFloat64 : computed;
  Tensor source = x;
  const DType wide = is_narrow(dtype) ? DType::kFloat32 : dtype;
  // A GPU's kernels read any dtype, and add floats up in float64.
  const bool exact = dtype == x.dtype() || (kind_of(x.dtype()) < Kind::kReal && dtype == DType::kFloat64);
  if (wide != x.dtype() && !(exact && queue_of(x) != nullptr)) {
    Result<Tensor> converted = convert(x, wide);
    if (!converted) return converted;
    source = *std::move(converted);
  }
  Plan plan{ReduceOp::kSum, kernels::loops().reduce(ReduceOp::kSum, wide),
            kernels::accumulator_of(ReduceOp::kSum, wide)};
  plan.divisor = reduced_count(x.shape(), *axes);
  Result<Tensor> target = place("mean", x, reduced_shape(x.shape(), *axes, how.keepdims), dtype, out);
  if (!target) return target;
  if (plan.divisor == 0) {  // 0 / 0
    if (Status status = assign(*target, Number(std::nan(""))); !status) return status;
    return target;
  }
  return run_reduction("mean", plan, source, *axes, *target);
}

Result<Tensor> variance(const Tensor& x, double correction, bool root, const Reduction& how, Out out) {
  Result<std::vector<bool>> axes = named_axes(how.axes, x.ndim());
  const std::string_view name = root ? "std" : "var";
  if (!axes) return refused(name, x, axes.status().what());
  const Tensor* input = &x;
  Result<Tensor> wide = Status(Code::kInvalid, "unused");
  if (is_narrow(x.dtype()) || kind_of(x.dtype()) < Kind::kReal) {
    wide = convert(x, is_narrow(x.dtype()) ? DType::kFloat32 : DType::kFloat64);
    if (!wide) return wide;
    input = &*wide;
  }
  Result<Tensor> center = average(*input, {how.axes, true, {}}, {});
  if (!center) return center;
  Result<Tensor> distance = binary(kernels::BinaryOp::kSubtract, *input, *center, {});
  if (distance && kind_of(distance->dtype()) == Kind::kComplex)
    distance = unary(kernels::UnaryOp::kAbs, *distance, {});
  if (distance) distance = unary(kernels::UnaryOp::kSquare, *distance, {});
  if (!distance) return distance;
  Result<Tensor> total = reduce(ReduceOp::kSum, *distance, {how.axes, how.keepdims, {}}, {});
  if (!total) return total;
  const double count = static_cast<double>(reduced_count(x.shape(), *axes)) - correction;
  Result<Tensor> result = binary(kernels::BinaryOp::kDivide, *total, Number(std::max(count, 0.0)), {});
  if (result && root) result = unary(kernels::UnaryOp::kSqrt, *result, {});
  if (result && result->dtype() != x.dtype() && is_narrow(x.dtype())) result = convert(*result, x.dtype());
  if (!result || out.tensor() == nullptr) return result;
  Result<Tensor> target = place(name, x, result->shape(), result->dtype(), out);
  if (!target) return target;
  if (Status status = assign(*target, *result); !status) return status;
  return target;
}

}  // namespace forklift::inline abi_0_1::ops
