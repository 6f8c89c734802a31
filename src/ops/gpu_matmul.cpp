// Products of matrices on a GPU: cuBLAS where it can be loaded and has the dtype, else a kernel of our own.
#include <algorithm>
#include <string>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/launcher.h"
#include "ops/gpu_layout.h"
#include "ops/on_gpu.h"
#include "ops/range_job.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using device::cuda::Queue;
using kernels::cuda::Blas;
using kernels::cuda::Launcher;
using kernels::cuda::MatmulParameters;

// Of the stacks of a, b and out.
Walk stacks_of(const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto stack = [](const Dims& dims) { return DimSpan(dims.data(), dims.size() - 2); };
  Walk walk;
  walk.begin(stack(out.shape()));
  for (const Tensor* const each : {&a, &b, &out})
    walk.add(stack(each->shape()), stack(each->strides()), each->item_size());
  walk.finish();
  return walk;
}

MatmulParameters parameters_for(const Tensor& a, const Tensor& b, const Tensor& out) {
  const std::size_t last = out.ndim() - 1;
  const std::size_t a_last = a.ndim() - 1;
  const std::size_t b_last = b.ndim() - 1;
  MatmulParameters parameters{};
  parameters.a = reinterpret_cast<std::uint64_t>(address_of(a));
  parameters.b = reinterpret_cast<std::uint64_t>(address_of(b));
  parameters.out = reinterpret_cast<std::uint64_t>(address_of(out));
  parameters.rows = out.shape()[last - 1];
  parameters.columns = out.shape()[last];
  parameters.depth = a.shape()[a_last];
  parameters.a_steps[0] = a.strides()[a_last - 1];
  parameters.a_steps[1] = a.strides()[a_last];
  parameters.b_steps[0] = b.strides()[b_last - 1];
  parameters.b_steps[1] = b.strides()[b_last];
  parameters.out_row_step = out.strides()[last - 1];
  return parameters;
}

std::int64_t tiles_of(const MatmulParameters& parameters, std::int64_t tile) noexcept {
  return (parameters.rows + tile - 1) / tile * ((parameters.columns + tile - 1) / tile);
}

}  // namespace

Status multiply_on_gpu(const Queue& queue, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto kernel = kernels::cuda::matmul_kernel(out.dtype());
  if (!kernel) return refuse_on_gpu("matmul", {&a, &b});
  MatmulParameters parameters = parameters_for(a, b, out);
  const Walk stacks = stacks_of(a, b, out);
  Status status;
  // Without depth the products are zeros, which cuBLAS need not know.
  if (Blas* const blas =
          parameters.depth > 0 && Blas::takes(out.dtype(), parameters) ? Blas::find() : nullptr) {
    status = for_each_layout(stacks, {0, 1, 2},
                             [&](const kernels::cuda::Layout& layout, const std::int64_t* offsets) {
                               parameters.stack = layout;
                               MatmulParameters one = parameters;
                               one.a += static_cast<std::uint64_t>(offsets[0]);
                               one.b += static_cast<std::uint64_t>(offsets[1]);
                               one.out += static_cast<std::uint64_t>(offsets[2]);
                               return blas->multiply(queue, out.dtype(), one);
                             });
    return status ? status : failed_on_gpu("matmul", {&a, &b}, status);
  }
  Result<Launcher> launcher = Launcher::of(queue);
  if (!launcher) return launcher.status();
  const std::int64_t tile = kernels::cuda::matmul_tile(*kernel);
  constexpr std::int64_t kMostAlongY = 65535;
  status = for_each_layout(
      stacks, {0, 1, 2}, [&](const kernels::cuda::Layout& layout, const std::int64_t* offsets) {
        MatmulParameters one = parameters;
        one.stack = layout;
        one.a += static_cast<std::uint64_t>(offsets[0]);
        one.b += static_cast<std::uint64_t>(offsets[1]);
        one.out += static_cast<std::uint64_t>(offsets[2]);
        return launcher->launch(*kernel, tiles_of(one, tile), std::min(layout.size, kMostAlongY), one);
      });
  return status ? status : failed_on_gpu("matmul", {&a, &b}, status);
}

}  // namespace forklift::inline abi_0_1::ops
