// Reductions on a GPU.
#include <algorithm>
#include <bit>
#include <string>

#include "kernels/cuda/launcher.h"
#include "ops/elementwise.h"
#include "ops/gpu_layout.h"
#include "ops/on_gpu.h"
#include "ops/range_job.h"
#include "tensor/operations.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using device::cuda::Queue;
using kernels::cuda::kAccumulatorBytes;
using kernels::cuda::kBlock;
using kernels::cuda::Kernel;
using kernels::cuda::Launcher;
using kernels::cuda::ReduceParameters;

// Blocks that keep a large GPU busy.
constexpr std::int64_t kEnoughBlocks = 512;
// What a thread reads at least before a result is split between blocks.
constexpr std::int64_t kLeastPerThread = 16;
constexpr std::int64_t kMostParts = 512;
// As many loads as a thread has on the way.
constexpr std::int64_t kEachLane = 4;
constexpr std::int64_t kLeastLanes = 8;

// The dimensions of `x` that stay, and those that are reduced.
struct Halves {
  Walk kept;  // of x and of the results, which have C order
  Walk reduced;

  Halves(const Tensor& x, const std::vector<bool>& axes, std::size_t out_item) {
    Dims kept_shape;
    Dims kept_strides;
    Dims reduced_shape;
    Dims reduced_strides;
    for (std::size_t i = 0; i < x.ndim(); ++i) {
      (axes[i] ? reduced_shape : kept_shape).push_back(x.shape()[i]);
      (axes[i] ? reduced_strides : kept_strides).push_back(x.strides()[i]);
    }
    kept.begin(kept_shape);
    kept.add(kept_shape, kept_strides, x.item_size());
    kept.add(kept_shape, c_strides(kept_shape), out_item);
    kept.finish();
    reduced.begin(reduced_shape);
    reduced.add(reduced_shape, reduced_strides, x.item_size());
    reduced.finish();
  }

  bool fits() const noexcept {
    constexpr auto kMost = static_cast<std::size_t>(kernels::cuda::kMostDims);
    return kept.ndim() <= kMost && reduced.ndim() <= kMost;
  }
};

// How the threads share the work.
struct Shares {
  bool across = false;
  std::uint8_t lanes_log2 = 0;
  std::int64_t blocks = 1;
  std::int64_t parts = 1;

  explicit Shares(const Halves& split) {
    const std::int64_t results = split.kept.size();
    const std::int64_t elements = split.reduced.size();
    // Neighbouring threads read neighbouring elements: those of one result, or one of each result.
    across =
        split.kept.ndim() > 0 && (split.reduced.ndim() == 0 ||
                                  std::abs(split.kept.inner_step(0)) < std::abs(split.reduced.inner_step(0)));
    // Across, a block has at least as many lanes as leave no thread without a result; along, each lane some elements.
    const auto spare = static_cast<std::int64_t>(
        kBlock / std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(results, kBlock))));
    const std::int64_t wanted = across ? std::min(elements / kLeastPerThread, std::max(spare, kLeastLanes))
                                       : (elements + kEachLane - 1) / kEachLane;
    while ((1 << lanes_log2) < static_cast<int>(kBlock) && (std::int64_t{1} << lanes_log2) < wanted)
      ++lanes_log2;
    const std::int64_t per_block = kBlock >> lanes_log2;
    blocks = std::min((results + per_block - 1) / per_block, kernels::cuda::kMostBlocks);
    const std::int64_t most =
        std::max<std::int64_t>(elements / ((std::int64_t{1} << lanes_log2) * kLeastPerThread), 1);
    if (blocks < kEnoughBlocks) parts = std::min({(kEnoughBlocks + blocks - 1) / blocks, most, kMostParts});
  }
};

ReduceParameters parameters_for(const GpuReduction& what, const Halves& split, const Shares& shares,
                                const Tensor& x, const Tensor& target) {
  ReduceParameters parameters{};
  parameters.kept = layout_of(split.kept, {0, 1});
  parameters.reduced = layout_of(split.reduced, {0});
  parameters.in = reinterpret_cast<std::uint64_t>(address_of(x));
  parameters.out = reinterpret_cast<std::uint64_t>(address_of(target));
  parameters.op = static_cast<std::uint8_t>(what.op);
  parameters.in_dtype = x.dtype();
  parameters.out_dtype = target.dtype();
  parameters.across = shares.across ? 1 : 0;
  parameters.lanes_log2 = shares.lanes_log2;
  parameters.parts = shares.parts;
  parameters.divisor = static_cast<double>(what.divisor);
  return parameters;
}

Status launch(const Launcher& launcher, Kernel kernel, ReduceParameters parameters, const Shares& shares,
              const Tensor& target) {
  if (shares.parts == 1) return launcher.launch(kernel, shares.blocks, 1, parameters);
  const std::int64_t results = parameters.kept.size;
  const auto bytes = shares.parts * results * static_cast<std::int64_t>(kAccumulatorBytes);
  // Freed when this returns; the device uses the memory for later work only.
  Result<Tensor> partial = tensor::on_device(*tensor::device_of(target), Dims{bytes}, DType::kUInt8);
  if (!partial) return partial.status();
  const std::uint64_t out = parameters.out;
  parameters.to_partial = 1;
  parameters.out = reinterpret_cast<std::uint64_t>(address_of(*partial));
  if (Status status = launcher.launch(kernel, shares.blocks, shares.parts, parameters); !status)
    return status;
  // The accumulators of one part lie side by side: each thread reduces one result.
  parameters.to_partial = 0;
  parameters.from_partial = 1;
  parameters.in = parameters.out;
  parameters.out = out;
  parameters.reduced.size = shares.parts;
  parameters.parts = 1;
  parameters.across = 1;
  parameters.lanes_log2 = results < kBlock ? 3 : 0;
  const std::int64_t per_block = kBlock >> parameters.lanes_log2;
  return launcher.launch(kernel, std::min((results + per_block - 1) / per_block, kernels::cuda::kMostBlocks),
                         1, parameters);
}

// The same elements, the reduced dimensions last and without gaps: they join to one, and the others, too.
Result<Tensor> gathered(const Tensor& x, const std::vector<bool>& axes, std::vector<bool>& new_axes) {
  Dims order;
  for (const bool reduced : {false, true}) {
    for (std::size_t i = 0; i < x.ndim(); ++i) {
      if (axes[i] != reduced) continue;
      order.push_back(static_cast<std::int64_t>(i));
      new_axes.push_back(reduced);
    }
  }
  Result<Tensor> turned = tensor::permute(x, order);
  return turned ? convert(*turned, x.dtype()) : turned;
}

}  // namespace

Status reduce_on_gpu(const Queue& queue, const GpuReduction& what, const Tensor& x,
                     const std::vector<bool>& axes, const Tensor& target) {
  if (target.numel() == 0) return {};
  const Halves split(x, axes, target.item_size());
  if (!split.fits()) {
    std::vector<bool> last;
    Result<Tensor> dense = gathered(x, axes, last);
    return dense ? reduce_on_gpu(queue, what, *dense, last, target) : dense.status();
  }
  Result<Launcher> launcher = Launcher::of(queue);
  if (!launcher) return launcher.status();
  const DType accumulator = kernels::cuda::accumulator_on_gpu(what.op, x.dtype());
  const DType computed =
      what.divisor != 0 && accumulator != DType::kComplex128 ? DType::kFloat64 : accumulator;
  const Kernel kernel =
      what.index ? kernels::cuda::extreme_kernel(computed) : kernels::cuda::reduce_kernel(computed);
  const Shares shares(split);
  const Status status =
      launch(*launcher, kernel, parameters_for(what, split, shares, x, target), shares, target);
  return status ? status : failed_on_gpu(what.name, {&x}, status);
}

}  // namespace forklift::inline abi_0_1::ops
