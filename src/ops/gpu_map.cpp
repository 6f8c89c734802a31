// Elementwise operations and copies on a GPU.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/launcher.h"
#include "ops/element_type.h"
#include "ops/gpu_layout.h"
#include "ops/on_gpu.h"
#include "ops/range_job.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using device::cuda::Queue;
using kernels::BinaryOp;
using kernels::UnaryOp;
using kernels::cuda::Launcher;

std::uint64_t number_of(const Tensor& tensor) noexcept {
  return reinterpret_cast<std::uint64_t>(address_of(tensor));
}

// The kernels have no bools: they compute with 0 and 1.
std::uint16_t op_on_integers(std::uint16_t op) noexcept {
  if (op == static_cast<std::uint16_t>(UnaryOp::kBitwiseInvert))
    return static_cast<std::uint16_t>(UnaryOp::kLogicalNot);
  if (op < kernels::cuda::kBinaryBase || op >= kernels::cuda::kSelect) return op;
  const auto with = [](BinaryOp other) {
    return static_cast<std::uint16_t>(kernels::cuda::kBinaryBase + static_cast<std::uint16_t>(other));
  };
  switch (static_cast<BinaryOp>(op - kernels::cuda::kBinaryBase)) {
    case BinaryOp::kAdd:
    case BinaryOp::kMaximum: return with(BinaryOp::kBitwiseOr);
    case BinaryOp::kMultiply:
    case BinaryOp::kMinimum: return with(BinaryOp::kBitwiseAnd);
    default: return op;
  }
}

bool has_kernel(const Program& program) noexcept {
  if (program.op >= kernels::cuda::kSelect) return true;
  if (program.op >= kernels::cuda::kBinaryBase)
    return kernels::cuda::is_on_gpu(static_cast<BinaryOp>(program.op - kernels::cuda::kBinaryBase),
                                    program.inputs[0]);
  return kernels::cuda::is_on_gpu(static_cast<UnaryOp>(program.op), program.inputs[0]);
}

// The operands' tensors, in their places; null for numbers.
std::array<const Tensor*, kMostInputs> tensors_of(std::initializer_list<const Operand*> operands) noexcept {
  std::array<const Tensor*, kMostInputs> tensors{};
  std::size_t k = 0;
  for (const Operand* const operand : operands) tensors[k++] = operand->tensor();
  return tensors;
}

Status failed(const Program& program, std::initializer_list<const Operand*> operands, const Status& why) {
  const auto tensors = tensors_of(operands);
  return failed_on_gpu(program.name, {tensors[0], tensors[1], tensors[2]}, why);
}

// A signed exponent that is negative is an error; to see it, the smallest one is read back.
Status check_exponents(const Queue& queue, const Operand& exponent) {
  const Status negative{Code::kInvalid, "pow: integers to negative integer powers are not allowed"};
  if (exponent.tensor() == nullptr) return exponent.number().real() < 0 ? negative : Status();
  const Tensor& exponents = *exponent.tensor();
  if (exponents.numel() == 0 || kind_of(exponents.dtype()) != Kind::kSigned) return {};
  const std::shared_ptr<device::Device>& device = *tensor::device_of(exponents);
  Result<Tensor> least = tensor::on_device(device, Dims{}, DType::kInt64);
  if (!least) return least.status();
  const std::vector<bool> all(exponents.ndim(), true);
  if (Status status =
          reduce_on_gpu(queue, {.name = "pow", .op = kernels::ReduceOp::kMin}, exponents, all, *least);
      !status)
    return status;
  Result<Tensor> here = tensor::move_to(*least, nullptr);
  if (!here) return here.status();
  return load<std::int64_t>(address_of(*here)) < 0 ? negative : Status();
}

// Without gaps and of one dtype, as the direct kernels take them? `walk` has the inputs and then the target.
bool lies_directly(const Program& program, const Walk& walk,
                   const std::array<const Tensor*, kMostInputs>& tensors, const Tensor& target,
                   DType dtype) noexcept {
  if (walk.ndim() > 1 || !kernels::cuda::is_direct(program.op, dtype)) return false;
  if (program.inputs[0] != (is_narrow(dtype) ? DType::kFloat32 : dtype)) return false;
  const bool compares = program.op >= kernels::cuda::kBinaryBase && program.result == DType::kBool;
  if (target.dtype() != (compares ? DType::kBool : dtype)) return false;
  const auto fits = [&](std::size_t array, std::size_t item) {
    return walk.ndim() == 0 || walk.inner_step(array) == static_cast<std::ptrdiff_t>(item);
  };
  if (!fits(walk.arrays() - 1, target.item_size())) return false;
  for (std::size_t k = 0; k + 1 < walk.arrays(); ++k) {
    if (tensors[k] == nullptr) continue;
    if (tensors[k]->dtype() != dtype) return false;
    if (!fits(k, tensors[k]->item_size()) && walk.inner_step(k) != 0) return false;
  }
  return true;
}

// Of the first operand that is a tensor.
DType dtype_among(const std::array<const Tensor*, kMostInputs>& tensors, DType otherwise) noexcept {
  for (const Tensor* const tensor : tensors) {
    if (tensor != nullptr) return tensor->dtype();
  }
  return otherwise;
}

Status launch_direct(const Launcher& launcher, kernels::cuda::Kernel kernel, const Program& program,
                     const Walk& walk, const std::array<kernels::cuda::Operand, kMostInputs>& inputs,
                     const Tensor& target) {
  kernels::cuda::DirectParameters parameters{};
  for (std::size_t k = 0; k < 2; ++k) {
    parameters.inputs[k] = inputs[k];
    parameters.steps[k] = k + 1 < walk.arrays() && walk.inner_step(k) != 0 ? 1 : 0;
  }
  parameters.out = number_of(target);
  parameters.size = walk.size();
  parameters.op = program.op;
  constexpr std::int64_t kPart = kernels::cuda::kBlock * kernels::cuda::kEach * std::int64_t{1} << 20;
  // In parts, since a grid has a largest size.
  const auto item = static_cast<std::uint64_t>(target.item_size());
  for (std::int64_t done = 0; done < walk.size(); done += kPart) {
    parameters.size = std::min(kPart, walk.size() - done);
    const std::int64_t blocks =
        kernels::cuda::blocks_for((parameters.size + kernels::cuda::kEach - 1) / kernels::cuda::kEach);
    if (Status status = launcher.launch(kernel, blocks, 1, parameters); !status) return status;
    parameters.out += static_cast<std::uint64_t>(kPart) * item;
    for (std::size_t k = 0; k < 2; ++k) {
      if (parameters.inputs[k].address != 0 && parameters.steps[k] != 0)
        parameters.inputs[k].address +=
            static_cast<std::uint64_t>(kPart) * item_size(parameters.inputs[k].dtype);
    }
  }
  return {};
}

Status launch_map(const Launcher& launcher, const Program& program, const Walk& walk,
                  std::array<kernels::cuda::Operand, kMostInputs> inputs, const Tensor& target) {
  kernels::cuda::MapParameters parameters{};
  parameters.result = program.result;
  parameters.bits = static_cast<std::uint8_t>(8 * item_size(program.result));
  parameters.op = program.inputs[0] == DType::kBool && program.op != kernels::cuda::kSelect
                      ? op_on_integers(program.op)
                      : program.op;
  // The condition of a choice is a bool, whatever is chosen.
  const DType computed = program.op == kernels::cuda::kSelect ? program.result : program.inputs[0];
  return for_each_layout(
      walk, {0, 1, 2, 3}, [&](const kernels::cuda::Layout& layout, const std::int64_t* offsets) {
        parameters.layout = layout;
        for (std::size_t k = 0; k < kMostInputs; ++k) {
          parameters.inputs[k] = inputs[k];
          if (inputs[k].address != 0) parameters.inputs[k].address += static_cast<std::uint64_t>(offsets[k]);
        }
        parameters.out = {
            number_of(target) + static_cast<std::uint64_t>(offsets[kMostInputs]), target.dtype(), {}};
        return launcher.launch(kernels::cuda::map_kernel(computed), kernels::cuda::blocks_for(layout.size), 1,
                               parameters);
      });
}

// The dimension along which the elements of `x` (array 0) lie side by side, if those of `into` (array 1) do so along the
// innermost one, and both are long enough for tiles.
std::optional<std::size_t> turned_dimension(const Walk& walk, std::size_t item) noexcept {
  constexpr std::int64_t kLeast = kernels::cuda::kTile / 2;
  const auto step = static_cast<std::int64_t>(item);
  const std::size_t inner = walk.ndim() - 1;
  if (walk.ndim() < 2 || walk.ndim() > static_cast<std::size_t>(kernels::cuda::kMostDims) ||
      walk.step(1, inner) != step || walk.step(0, inner) == step || walk.length(inner) < kLeast)
    return std::nullopt;
  for (std::size_t dim = 0; dim < inner; ++dim) {
    if (walk.step(0, dim) == step && walk.length(dim) >= kLeast) return dim;
  }
  return std::nullopt;
}

Status launch_transpose(const Launcher& launcher, const Walk& walk, std::size_t turned, const Tensor& x,
                        const Tensor& into) {
  const std::size_t inner = walk.ndim() - 1;
  kernels::cuda::TransposeParameters parameters{};
  for (std::size_t dim = 0; dim < inner; ++dim) {
    if (dim == turned) continue;
    const auto at = static_cast<std::size_t>(parameters.outer.ndim++);
    parameters.outer.lengths[at] = walk.length(dim);
    for (std::size_t k = 0; k < 2; ++k) parameters.outer.steps[k][at] = walk.step(k, dim);
  }
  kernels::cuda::seal(parameters.outer);
  parameters.from = number_of(x);
  parameters.to = number_of(into);
  parameters.rows = walk.length(turned);
  parameters.columns = walk.length(inner);
  parameters.from_step = walk.step(0, inner);
  parameters.to_step = walk.step(1, turned);
  constexpr std::int64_t kMostAlongY = 65535;
  const auto tiles = [](std::int64_t length) {
    return (length + kernels::cuda::kTile - 1) / kernels::cuda::kTile;
  };
  return launcher.launch(kernels::cuda::transpose_kernel(x.item_size()),
                         tiles(parameters.rows) * tiles(parameters.columns),
                         std::min(parameters.outer.size, kMostAlongY), parameters);
}

// Sets memory without gaps to one byte, if all bytes of the number are alike. False: nothing was done.
Result<bool> fill_bytes(const Launcher& launcher, const std::byte* number, const Tensor& target) {
  const std::size_t item = target.item_size();
  if (!target.is_contiguous()) return false;
  if (!std::all_of(number, number + item, [number](std::byte byte) { return byte == number[0]; }))
    return false;
  if (Status status =
          launcher.set_bytes(number_of(target), static_cast<unsigned char>(number[0]), target.nbytes());
      !status)
    return status;
  return true;
}

}  // namespace

Status failed_on_gpu(std::string_view name, std::initializer_list<const Tensor*> tensors, const Status& why) {
  std::string text(name);
  text += '(';
  for (const Tensor* const tensor : tensors) {
    if (tensor == nullptr) continue;
    if (text.back() != '(') text += ", ";
    text += tensor->to_string();
  }
  return {why.code(), text + "): " + std::string(why.what())};
}

Status refuse_on_gpu(std::string_view name, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* const tensor : tensors) {
    if (tensor == nullptr || queue_of(*tensor) == nullptr) continue;
    return failed_on_gpu(name, tensors,
                         {Code::kUnsupported, "a GPU does not compute this; copy it with to(\"CPU\")"});
  }
  return {};
}

Status map_on_gpu(const Queue& queue, const Program& program, std::initializer_list<const Operand*> operands,
                  const Tensor& target) {
  if (!has_kernel(program)) {
    return failed(
        program, operands,
        {Code::kUnsupported, "a GPU does not compute this of complex numbers; copy it with to(\"CPU\")"});
  }
  const auto tensors = tensors_of(operands);
  const DType stored = dtype_among(tensors, program.inputs[0]);
  Walk walk;
  walk.begin(target.shape());
  std::array<kernels::cuda::Operand, kMostInputs> inputs{};
  std::size_t k = 0;
  for (const Operand* const operand : operands) {
    if (tensors[k] != nullptr) {
      walk.add(*tensors[k]);
      inputs[k].address = number_of(*tensors[k]);
      inputs[k].dtype = tensors[k]->dtype();
    } else {
      walk.add_constant();
      inputs[k].dtype = program.inputs[k];
      std::array<std::byte, kMostItemBytes> number{};
      if (!write_number(operand->number(), program.inputs[k], number.data()))
        return {Code::kInvalid, std::string(program.name) + ": the number does not fit into " +
                                    std::string(name(program.inputs[k]))};
      std::memcpy(inputs[k].constant, number.data(), sizeof inputs[k].constant);
    }
    ++k;
  }
  if (target.numel() == 0) return {};
  if (program.refuses_negative_exponents) {
    if (Status status = check_exponents(queue, *operands.begin()[1]); !status)
      return failed(program, operands, status);
  }
  Result<Launcher> launcher = Launcher::of(queue);
  if (!launcher) return launcher.status();
  Walk direct = walk;
  direct.add(target);
  direct.finish();
  if (const auto kernel = kernels::cuda::direct_kernel(stored);
      kernel && lies_directly(program, direct, tensors, target, stored)) {
    const Status status = launch_direct(*launcher, *kernel, program, direct, inputs, target);
    return status ? status : failed(program, operands, status);
  }
  for (; k < kMostInputs; ++k) walk.add_constant();
  walk.add(target);
  walk.finish();
  const Status status = launch_map(*launcher, program, walk, inputs, target);
  return status ? status : failed(program, operands, status);
}

Status copy_on_gpu(const Queue& queue, const Program& program, const Tensor& x, const Tensor& into) {
  // A bool that is true has the byte 1 after a copy, so bools are converted.
  if (x.dtype() != into.dtype() || x.dtype() == DType::kBool) {
    const Operand operand(x);
    return map_on_gpu(queue, program, {&operand}, into);
  }
  if (into.numel() == 0) return {};
  Result<Launcher> launcher = Launcher::of(queue);
  if (!launcher) return launcher.status();
  Status status;
  if (x.is_contiguous() && into.is_contiguous() && x.numel() == into.numel()) {
    if (x.same_view(into)) return {};
    status = launcher->copy(number_of(into), number_of(x), into.nbytes());
  } else {
    Walk walk;
    walk.begin(into.shape());
    walk.add(x);
    walk.add(into);
    walk.finish();
    if (const std::optional<std::size_t> turned = turned_dimension(walk, x.item_size())) {
      status = launch_transpose(*launcher, walk, *turned, x, into);
      return status ? status : failed_on_gpu(program.name, {&x}, status);
    }
    status =
        for_each_layout(walk, {0, 1}, [&](const kernels::cuda::Layout& layout, const std::int64_t* offsets) {
          kernels::cuda::CopyParameters parameters{};
          parameters.layout = layout;
          parameters.from = number_of(x) + static_cast<std::uint64_t>(offsets[0]);
          parameters.to = number_of(into) + static_cast<std::uint64_t>(offsets[1]);
          return launcher->launch(kernels::cuda::copy_kernel(x.item_size()),
                                  kernels::cuda::blocks_for(layout.size), 1, parameters);
        });
  }
  return status ? status : failed_on_gpu(program.name, {&x}, status);
}

Status fill_on_gpu(const Queue& queue, const Program& program, const Number& number, const Tensor& into) {
  std::array<std::byte, kMostItemBytes> item{};
  if (!write_number(number, into.dtype(), item.data()))
    return {Code::kInvalid, "the number does not fit into " + std::string(name(into.dtype()))};
  if (into.numel() == 0) return {};
  Result<Launcher> launcher = Launcher::of(queue);
  if (!launcher) return launcher.status();
  Result<bool> filled = fill_bytes(*launcher, item.data(), into);
  if (!filled) return failed_on_gpu(program.name, {&into}, filled.status());
  if (*filled) return {};
  const Operand operand(number);
  return map_on_gpu(queue, program, {&operand}, into);
}

}  // namespace forklift::inline abi_0_1::ops
