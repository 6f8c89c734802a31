// Operations whose tensors lie on a GPU: queued there as kernels, where the CPU would get a job.
//
//   if (const Queue* queue = queue_of(*target)) return map_on_gpu(*queue, program, operands, *target);
//   if (Status status = refuse_on_gpu("sort", {&x}); !status) return status;
//
// The callers have made the checks, and the tensors of one call lie on one device. What has no kernel is refused before
// anything is computed. A call returns when its kernel is queued.
//
// Errors: kUnsupported: no kernel computes this, or this build has none; kDevice, kNoSpace: the driver's. All with the
// operation's name and its operands.
// Thread safety: as forklift/ops.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "device/cuda/work_queue.h"
#include "forklift/ops.h"
#include "forklift/status.h"
#include "kernels/opcodes.h"
#include "ops/map_job.h"
#include "tensor/device_storage.h"

namespace forklift::inline abi_0_1::ops {

// Null: the CPU computes with it.
inline const device::cuda::Queue* queue_of(const Tensor& tensor) noexcept {
  const std::shared_ptr<device::Device>* const device = tensor::device_of(tensor);
  return device == nullptr ? nullptr : (*device)->queue();
}

// kUnsupported if one of them lies on a GPU. Null pointers are numbers.
Status refuse_on_gpu(std::string_view name, std::initializer_list<const Tensor*> tensors);

// `program` on the operands, broadcast to the target. The target overlaps none of them but as a whole.
Status map_on_gpu(const device::cuda::Queue& queue, const Program& program,
                  std::initializer_list<const Operand*> operands, const Tensor& target);

// Elements of `x` to `into`, which has another shape only where `x` is broadcast; converted.
Status copy_on_gpu(const device::cuda::Queue& queue, const Program& program, const Tensor& x,
                   const Tensor& into);

// The number to all elements.
Status fill_on_gpu(const device::cuda::Queue& queue, const Program& program, const Number& number,
                   const Tensor& into);

// What of a reduction is not in its tensors.
struct GpuReduction {
  std::string_view name;
  kernels::ReduceOp op;
  bool index = false;        // of the first largest (kMax) or smallest (kMin) element
  std::int64_t divisor = 0;  // of a mean; 0: none
};
// Of the dimensions `axes` of `x`, into `target`, which has C order.
Status reduce_on_gpu(const device::cuda::Queue& queue, const GpuReduction& what, const Tensor& x,
                     const std::vector<bool>& axes, const Tensor& target);

// out = a b. All have one dtype and two dimensions at least; the rows of `out` have no gaps, and of an operand the rows or
// the columns.
Status multiply_on_gpu(const device::cuda::Queue& queue, const Tensor& a, const Tensor& b, const Tensor& out);

// For this room's own files: with the operation and its operands.
Status failed_on_gpu(std::string_view name, std::initializer_list<const Tensor*> tensors, const Status& why);

}  // namespace forklift::inline abi_0_1::ops
