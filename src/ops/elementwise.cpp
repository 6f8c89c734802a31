#include "ops/elementwise.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "arena/cache/thread_cache.h"
#include "kernels/loops.h"
#include "ops/job.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "ops/walk.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::ops {
namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;

constexpr std::size_t kMostInputs = 3;

// What a job does with runs of elements: one of the three loops, between conversions.
struct Program {
  std::string_view name;
  kernels::UnaryLoop unary = nullptr;
  kernels::BinaryLoop binary = nullptr;
  kernels::SelectLoop select = nullptr;
  double element_ns = 0;
  DType inputs[kMostInputs] = {};  // what each operand is converted to
  DType result{};                  // of the loop
  bool refuses_negative_exponents = false;
};

class MapJob final : public TensorJob {
 public:
  MapJob(const Program& program, std::int64_t pieces, std::size_t bytes)
      : TensorJob(program.name, pieces, bytes), program_(program), total_pieces_(pieces) {}

  Walk& walk() noexcept { return walk_; }

  void input(const Tensor& tensor) {
    const std::size_t k = inputs_++;
    reads(tensor);
    walk_.add(tensor);
    bases_[k] = address(tensor);
    if (tensor.dtype() != program_.inputs[k])
      casts_[k] = kernels::loops().cast(tensor.dtype(), program_.inputs[k]);
  }

  // False: it does not fit into the dtype.
  bool input(const Number& number) {
    const std::size_t k = inputs_++;
    walk_.add_constant();
    bases_[k] = constants_[k].data();
    return write_number(number, program_.inputs[k], constants_[k].data());
  }

  void output(const Tensor& tensor) {
    writes(tensor);
    walk_.add(tensor);
    out_ = address(tensor);
    if (tensor.dtype() != program_.result) out_cast_ = kernels::loops().cast(program_.result, tensor.dtype());
    plain_ =
        out_cast_ == nullptr && std::all_of(casts_.begin(), casts_.end(), [](auto cast) { return !cast; });
    walk_.finish();
  }

 private:
  void run(std::int64_t piece) noexcept override {
    const std::int64_t size = walk_.size();
    const std::int64_t first = share(size, piece);
    walk_.for_each(first, share(size, piece + 1), [this](const std::int64_t* offsets, std::int64_t count) {
      if (plain_) {
        const std::byte* from[kMostInputs];
        std::ptrdiff_t steps[kMostInputs];
        for (std::size_t k = 0; k < inputs_; ++k) {
          from[k] = bases_[k] + offsets[k];
          steps[k] = walk_.inner_step(k);
        }
        call(from, steps, out_ + offsets[inputs_], walk_.inner_step(inputs_), count);
      } else {
        convert_and_call(offsets, count);
      }
    });
  }

  // Where piece number `piece` begins; without overflow.
  std::int64_t share(std::int64_t size, std::int64_t piece) const noexcept {
    return size / total_pieces_ * piece + size % total_pieces_ * piece / total_pieces_;
  }

  void call(const std::byte* const* from, const std::ptrdiff_t* steps, std::byte* to, std::ptrdiff_t step,
            std::int64_t count) noexcept {
    if (program_.refuses_negative_exponents) check_exponents(from[1], steps[1], count);
    if (program_.unary != nullptr) {
      program_.unary(from[0], steps[0], to, step, count);
    } else if (program_.binary != nullptr) {
      program_.binary(from[0], steps[0], from[1], steps[1], to, step, count);
    } else {
      program_.select(from[0], steps[0], from[1], steps[1], from[2], steps[2], to, step, count);
    }
  }

  void convert_and_call(const std::int64_t* offsets, std::int64_t count) noexcept {
    alignas(64) std::byte buffers[kMostInputs + 1][kRun * kMostItemBytes];
    for (std::int64_t done = 0; done < count; done += kRun) {
      const std::int64_t run = std::min(kRun, count - done);
      const std::byte* from[kMostInputs];
      std::ptrdiff_t steps[kMostInputs];
      for (std::size_t k = 0; k < inputs_; ++k) {
        steps[k] = walk_.inner_step(k);
        from[k] = bases_[k] + offsets[k] + done * steps[k];
        if (casts_[k] == nullptr) continue;
        const auto item = static_cast<std::ptrdiff_t>(item_size(program_.inputs[k]));
        casts_[k](from[k], steps[k], buffers[k], item, steps[k] == 0 ? 1 : run);
        from[k] = buffers[k];
        if (steps[k] != 0) steps[k] = item;
      }
      const std::ptrdiff_t out_step = walk_.inner_step(inputs_);
      std::byte* const to = out_ + offsets[inputs_] + done * out_step;
      if (out_cast_ == nullptr) {
        call(from, steps, to, out_step, run);
        continue;
      }
      const auto item = static_cast<std::ptrdiff_t>(item_size(program_.result));
      call(from, steps, buffers[kMostInputs], item, run);
      out_cast_(buffers[kMostInputs], item, to, out_step, run);
    }
  }

  // Of exponents that have the loop's dtype.
  void check_exponents(const std::byte* exponents, std::ptrdiff_t step, std::int64_t count) {
    std::byte least[8];
    const kernels::ReduceLoops smallest =
        kernels::loops().reduce(kernels::ReduceOp::kMin, program_.inputs[1]);
    smallest.start(least);
    smallest.along(exponents, step, least, count);
    const std::byte sign = least[item_size(program_.inputs[1]) - 1];
    if ((sign & std::byte{0x80}) != std::byte{0})
      fail({Code::kInvalid, "pow: integers to negative integer powers are not allowed"});
  }

  const Program program_;
  const std::int64_t total_pieces_;
  Walk walk_;
  std::size_t inputs_ = 0;
  std::array<std::byte*, kMostInputs> bases_{};
  std::array<kernels::UnaryLoop, kMostInputs> casts_{};
  alignas(16) std::array<std::array<std::byte, kMostItemBytes>, kMostInputs> constants_{};
  std::byte* out_ = nullptr;
  kernels::UnaryLoop out_cast_ = nullptr;
  bool plain_ = false;
};

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

bool overlaps(const Tensor& out, const Tensor& input) noexcept {
  if (out.numel() == 0 || input.numel() == 0) return false;
  const auto range = [](const Tensor& tensor) {
    const tensor::Extent extent = *tensor::byte_extent(tensor.shape(), tensor.strides(), tensor.item_size());
    const auto first = reinterpret_cast<std::uintptr_t>(detail::StorageAccess::address(*tensor.storage())) +
                       tensor.byte_offset();
    return std::pair(first + static_cast<std::uintptr_t>(extent.low),
                     first + static_cast<std::uintptr_t>(extent.high));
  };
  const auto [out_low, out_high] = range(out);
  const auto [low, high] = range(input);
  if (high <= out_low || out_high <= low) return false;
  return low != out_low || out.item_size() != input.item_size() || !(out.shape() == input.shape()) ||
         !(out.strides() == input.strides());
}

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
    }
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
  const Operand both[] = {a, b};
  const DType common = result_type(both, 2);
  const std::optional<DType> dtype = operands_dtype(op, common);
  Program program;
  program.name = kernels::name(op);
  if (dtype) {
    const DType computed = loop_dtype(*dtype);
    program.binary = kernels::loops().binary(op, computed);
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
  program.unary = kernels::loops().cast(from, into.dtype());
  program.inputs[0] = from;
  program.result = into.dtype();
  program.element_ns = 0.3;
  if (x.tensor() != nullptr && overlaps(into, *x.tensor())) {
    Result<Tensor> apart = convert(*x.tensor(), into.dtype());
    if (!apart) return apart.status();
    return assign(into, *apart);
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

}  // namespace forklift::ops
