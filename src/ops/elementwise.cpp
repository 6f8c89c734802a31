#include "ops/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "arena/cache/thread_cache.h"
#include "kernels/cuda/parameters.h"
#include "kernels/loops.h"
#include "ops/few.h"
#include "ops/job.h"
#include "ops/map_job.h"
#include "ops/on_gpu.h"
#include "ops/overlap.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/walk.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {
namespace {

using detail::StorageAccess;
using kernels::BinaryOp;
using kernels::UnaryOp;

Status refused(std::string_view name, std::initializer_list<const Operand*> operands, std::string_view why) {
  std::string text(name);
  text += '(';
  for (const Operand* const operand : operands) {
    if (text.back() != '(') text += ", ";
    text += operand->tensor() != nullptr ? operand->tensor()->to_string() : "a number";
  }
  return {Code::kInvalid, text + "): " + std::string(why)};
}

// The tensor that `out` names, if the result may be written there; or a new one.
Result<Tensor> place(const Program& program, std::initializer_list<const Operand*> operands,
                     const Dims& shape, DType dtype, Out out) {
  const auto tensor_of = [&](std::size_t k) {
    return k < operands.size() ? operands.begin()[k]->tensor() : nullptr;
  };
  Result<Place> where = place_of(program.name, {tensor_of(0), tensor_of(1), tensor_of(2), out.tensor()});
  if (!where) return where.status();
  if (out.tensor() == nullptr) return where->make(shape, dtype);
  const Tensor& target = *out.tensor();
  if (target.readonly())
    return refused(program.name, operands, "out=" + target.to_string() + " is read-only");
  if (!(target.shape() == shape)) {
    return refused(program.name, operands,
                   "out=" + target.to_string() + " has not the result's shape, " + shape.to_string());
  }
  if (!may_convert(dtype, target.dtype())) {
    return refused(program.name, operands,
                   "out=" + target.to_string() + " cannot hold a result of " + std::string(name(dtype)));
  }
  return target;
}

// Computes `program` on the operands; `dtype` is the result's.
Result<Tensor> map(const Program& program, std::initializer_list<const Operand*> operands, DType dtype,
                   Out out) {
  if (are_few_and_alike(program, operands, dtype, out)) return compute_alike(program, operands, out);
  static const Dims scalar{};
  const auto shape_of = [](const Operand& operand) {
    return operand.tensor() ? &operand.tensor()->shape() : &scalar;
  };
  const Operand* const* each = operands.begin();
  const std::size_t count = operands.size();
  const Dims* shapes[kMostInputs] = {};
  for (std::size_t k = 0; k < count; ++k) shapes[k] = shape_of(*each[k]);
  Result<Dims> shape = broadcast_shapes({shapes, count});
  if (!shape) return refused(program.name, operands, shape.status().what());
  Result<Tensor> target = place(program, operands, *shape, dtype, out);
  if (!target) return target.status();
  if (out.tensor() != nullptr) {
    for (const Operand* const operand : operands) {
      if (operand->tensor() == nullptr || !overlaps(*target, *operand->tensor())) continue;
      Result<Tensor> apart = map(program, operands, dtype, Out());
      if (!apart) return apart;
      if (Status status = assign(*target, *apart); !status) return status;
      return target;
    }
  }
  if (compute_few(program, operands, *target)) return target;
  if (const device::cuda::Queue* const queue = queue_of(*target)) {
    if (Status status = map_on_gpu(*queue, program, operands, *target); !status) return status;
    return target;
  }
  const double nanoseconds = static_cast<double>(target->numel()) * program.element_ns;
  const auto job = std::allocate_shared<MapJob>(arena::ThreadCache<MapJob>(), program,
                                                pieces_for(nanoseconds), target->nbytes());
  job->walk().begin(*shape);
  for (const Operand* const operand : operands) {
    if (operand->tensor() != nullptr) {
      job->input(*operand->tensor());
    } else if (!job->input(operand->number())) {
      return refused(program.name, operands,
                     "the number does not fit into the dtype of the tensor beside it");
    }
  }
  job->output(*target);
  if (target->numel() == 0) return target;
  if (Status status = dispatch(job, nanoseconds); !status) return status;
  return target;
}

double unary_ns(UnaryOp op, DType dtype) {
  if (kind_of(dtype) == Kind::kComplex) return op >= UnaryOp::kReciprocal && op <= UnaryOp::kAtanh ? 40 : 1;
  if (op >= UnaryOp::kExp && op <= UnaryOp::kErf) return 1.5;
  return op == UnaryOp::kSqrt || op == UnaryOp::kReciprocal ? 0.5 : 0.2;
}

double binary_ns(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::kPow: return kind_of(dtype) == Kind::kComplex ? 80 : 3;
    case BinaryOp::kAtan2:
    case BinaryOp::kHypot:
    case BinaryOp::kLogaddexp: return 3;
    case BinaryOp::kFloorDivide:
    case BinaryOp::kRemainder: return 5;
    case BinaryOp::kDivide: return 0.5;
    default: return kind_of(dtype) == Kind::kComplex ? 0.6 : 0.25;
  }
}

// float16 and bfloat16 are computed in float32.
DType loop_dtype(DType dtype) { return is_narrow(dtype) ? DType::kFloat32 : dtype; }

}  // namespace

Result<Tensor> unary(UnaryOp op, const Operand& x, Out out) {
  const DType common = result_type(&x, 1);
  const std::optional<DType> dtype = operands_dtype(op, common);
  Program program;
  program.name = kernels::name(op);
  if (dtype) {
    const DType computed = loop_dtype(*dtype);
    const bool whole = kind_of(computed) < Kind::kReal;
    if (kind_of(computed) != Kind::kComplex && (op == UnaryOp::kReal || op == UnaryOp::kConj))
      op = UnaryOp::kPositive;
    if (whole && (op == UnaryOp::kPositive || op == UnaryOp::kAbs) && computed == DType::kBool) {
      program.unary = kernels::loops().cast(computed, computed);
    } else {
      program.unary = kernels::loops().unary(op, computed);
      program.streaming_unary = kernels::loops().streaming_unary(op, computed);
    }
    program.op = static_cast<std::uint16_t>(op);
    program.inputs[0] = computed;
    program.result = kernels::result_of(op, computed);
    program.element_ns = unary_ns(op, computed);
  }
  if (program.unary == nullptr)
    return refused(program.name, {&x}, "no such operation on " + std::string(name(common)));
  DType result = kernels::result_of(op, *dtype);
  if (is_narrow(*dtype) && program.result == DType::kBool) result = DType::kBool;
  return map(program, {&x}, result, out);
}

Result<Tensor> binary(BinaryOp op, const Operand& a, const Operand& b, Out out) {
  const DType common = result_type(a, b);
  const std::optional<DType> dtype = operands_dtype(op, common);
  Program program;
  program.name = kernels::name(op);
  if (dtype) {
    const DType computed = loop_dtype(*dtype);
    program.binary = kernels::loops().binary(op, computed);
    program.streaming_binary = kernels::loops().streaming_binary(op, computed);
    program.op = static_cast<std::uint16_t>(kernels::cuda::kBinaryBase + static_cast<std::uint16_t>(op));
    program.inputs[0] = program.inputs[1] = computed;
    program.result = kernels::result_of(op, computed);
    program.element_ns = binary_ns(op, computed);
    program.refuses_negative_exponents = op == BinaryOp::kPow && kind_of(computed) == Kind::kSigned;
  }
  if (program.binary == nullptr)
    return refused(program.name, {&a, &b}, "no such operation on " + std::string(name(common)));
  return map(program, {&a, &b}, kernels::result_of(op, *dtype), out);
}

Result<Tensor> select(const Operand& condition, const Operand& a, const Operand& b, Out out) {
  const Operand both[] = {a, b};
  const DType common = result_type(both, 2);
  Program program;
  program.name = "where";
  program.op = kernels::cuda::kSelect;
  program.select = kernels::loops().select(item_size(common));
  program.inputs[0] = DType::kBool;
  program.inputs[1] = program.inputs[2] = program.result = common;
  program.element_ns = 0.5;
  return map(program, {&condition, &a, &b}, common, out);
}

Result<Tensor> clamp(const Operand& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
                     Out out) {
  if (!low && !high) return unary(UnaryOp::kPositive, x, out);
  if (!low) return binary(BinaryOp::kMinimum, x, *high, out);
  if (!high) return binary(BinaryOp::kMaximum, x, *low, out);
  Result<Tensor> raised = binary(BinaryOp::kMaximum, x, *low, {});
  if (!raised) return raised;
  return binary(BinaryOp::kMinimum, *raised, *high, out);
}

Result<Tensor> convert(const Tensor& x, DType dtype) {
  Result<Place> where = place_of("astype", {&x});
  if (!where) return where.status();
  Result<Tensor> made = where->make(x.shape(), dtype);
  if (!made) return made;
  if (Status status = assign(*made, x); !status) return status;
  return made;
}

Status fill(const Tensor& into, DType dtype, const void* item) {
  if (queue_of(into) == nullptr || dtype != into.dtype()) return tensor::fill_elements(into, dtype, item);
  Result<Tensor> one = tensor::in_arena({}, dtype, false);
  if (!one) return one.status();
  std::memcpy(StorageAccess::address(*one->storage()), item, item_size(dtype));
  const Result<Tensor> there = tensor::move_to(*one, *tensor::device_of(into));
  return there ? assign(into, *there) : there.status();
}

Status copy(const Tensor& into, const Tensor& source) {
  if (queue_of(into) == nullptr && queue_of(source) == nullptr) return tensor::copy_elements(into, source);
  if (!(into.shape() == source.shape()) || into.dtype() != source.dtype())
    return {Code::kInvalid, "copy of " + source.to_string() + " into " + into.to_string()};
  const std::shared_ptr<device::Device>* const device = tensor::device_of(into);
  const Result<Tensor> dense =
      source.is_contiguous() ? Result<Tensor>(source) : convert(source, source.dtype());
  if (!dense) return dense.status();
  const Result<Tensor> there = tensor::move_to(*dense, device == nullptr ? nullptr : *device);
  return there ? assign(into, *there) : there.status();
}

Status assign(const Tensor& into, const Operand& x) {
  if (into.readonly()) return {Code::kInvalid, into.to_string() + " is read-only"};
  static const Dims scalar{};
  const Dims& shape = x.tensor() != nullptr ? x.tensor()->shape() : scalar;
  if (!broadcasts_to(shape, into.shape()))
    return {Code::kInvalid, x.tensor()->to_string() + " does not broadcast to " + into.to_string()};
  if (Result<Place> where = place_of("copy", {&into, x.tensor()}); !where) return where.status();
  if (into.numel() == 0) return {};
  const DType from = x.tensor() != nullptr ? x.tensor()->dtype() : into.dtype();
  Program program;
  program.name = "copy";
  program.op = static_cast<std::uint16_t>(UnaryOp::kPositive);
  program.unary = kernels::loops().cast(from, into.dtype());
  if (from == into.dtype())
    program.streaming_unary = kernels::loops().streaming_unary(UnaryOp::kPositive, from);
  program.inputs[0] = from;
  program.result = into.dtype();
  program.element_ns = 0.3;
  if (x.tensor() != nullptr && overlaps(into, *x.tensor())) {
    Result<Tensor> apart = convert(*x.tensor(), into.dtype());
    if (!apart) return apart.status();
    return assign(into, *apart);
  }
  if (const device::cuda::Queue* const queue = queue_of(into)) {
    if (x.tensor() != nullptr) return copy_on_gpu(*queue, program, *x.tensor(), into);
    return fill_on_gpu(*queue, program, x.number(), into);
  }
  const double nanoseconds = static_cast<double>(into.numel()) * program.element_ns;
  const auto job =
      std::allocate_shared<MapJob>(arena::ThreadCache<MapJob>(), program, pieces_for(nanoseconds), 0);
  job->walk().begin(into.shape());
  if (x.tensor() != nullptr) {
    job->input(*x.tensor());
  } else if (!job->input(x.number())) {
    return {Code::kInvalid, "the number does not fit into " + std::string(name(into.dtype()))};
  }
  job->output(into);
  return dispatch(job, nanoseconds);
}

}  // namespace forklift::inline abi_0_1::ops
