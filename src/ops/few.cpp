#include "ops/few.h"

#include <algorithm>

#include "ops/job.h"
#include "ops/promotion.h"
#include "tensor/arena_storage.h"
#include "tensor/dense.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using detail::StorageAccess;

constexpr std::int64_t kFew = 1024;

// Of a tensor that has elements.
bool is_at_hand(const Tensor& tensor, DType dtype) noexcept {
  const Storage& memory = *tensor.storage();
  return tensor.dtype() == dtype && tensor::dense_count(tensor.shape(), tensor.strides()) &&
         !memory.on_device() && !StorageAccess::is_busy(memory);
}

// May elements be written one by one while those of `in`, at the same places, are read? Both lie in C order.
bool keeps_apart(const Tensor& out, const Tensor& in) noexcept {
  const std::byte* const to = TensorJob::address(out);
  const std::byte* const from = TensorJob::address(in);
  return (to == from && out.item_size() == in.item_size()) || to + out.nbytes() <= from ||
         from + in.nbytes() <= to;
}

}  // namespace

bool are_few_and_alike(const Program& program, std::initializer_list<const Operand*> operands, DType dtype,
                       Out out) noexcept {
  if (dtype != program.result || program.refuses_negative_exponents) return false;
  const Tensor* const first = (*operands.begin())->tensor();
  if (first == nullptr || first->numel() == 0 || first->numel() > kFew) return false;
  std::size_t k = 0;
  for (const Operand* const operand : operands) {
    const Tensor* const tensor = operand->tensor();
    if (tensor == nullptr || !(tensor->shape() == first->shape()) ||
        !is_at_hand(*tensor, program.inputs[k++]))
      return false;
  }
  const Tensor* const target = out.tensor();
  if (target == nullptr) return true;
  return !target->readonly() && target->shape() == first->shape() && is_at_hand(*target, dtype) &&
         std::all_of(operands.begin(), operands.end(),
                     [&](const Operand* operand) { return keeps_apart(*target, *operand->tensor()); });
}

Result<Tensor> compute_alike(const Program& program, std::initializer_list<const Operand*> operands,
                             Out out) {
  const Tensor& first = *(*operands.begin())->tensor();
  Result<Tensor> target = out.tensor() != nullptr ? Result<Tensor>(*out.tensor())
                                                  : tensor::in_arena(first.shape(), program.result, false);
  if (!target) return target;
  const std::byte* from[kMostInputs];
  std::ptrdiff_t steps[kMostInputs];
  std::size_t k = 0;
  for (const Operand* const operand : operands) {
    from[k] = TensorJob::address(*operand->tensor());
    steps[k] = static_cast<std::ptrdiff_t>(item_size(program.inputs[k]));
    ++k;
  }
  call_loop(program, from, steps, TensorJob::address(*target),
            static_cast<std::ptrdiff_t>(target->item_size()), first.numel());
  return target;
}

bool compute_few(const Program& program, std::initializer_list<const Operand*> operands,
                 const Tensor& target) noexcept {
  const std::int64_t count = target.numel();
  if (count == 0 || count > kFew || program.refuses_negative_exponents || !is_at_hand(target, program.result))
    return false;
  alignas(16) std::byte constants[kMostInputs][kMostItemBytes];
  const std::byte* from[kMostInputs];
  std::ptrdiff_t steps[kMostInputs];
  std::size_t k = 0;
  for (const Operand* const operand : operands) {
    const DType dtype = program.inputs[k];
    if (const Tensor* const tensor = operand->tensor(); tensor == nullptr) {
      if (!write_number(operand->number(), dtype, constants[k])) return false;
      from[k] = constants[k];
      steps[k] = 0;
    } else {
      // Where all elements are used, broadcasting has added axes of length 1 only, and the order is the result's.
      if (!is_at_hand(*tensor, dtype) || (tensor->numel() != count && tensor->numel() != 1)) return false;
      from[k] = TensorJob::address(*tensor);
      steps[k] = tensor->numel() == count ? static_cast<std::ptrdiff_t>(item_size(dtype)) : 0;
    }
    ++k;
  }
  call_loop(program, from, steps, TensorJob::address(target), static_cast<std::ptrdiff_t>(target.item_size()),
            count);
  return true;
}

}  // namespace forklift::inline abi_0_1::ops
