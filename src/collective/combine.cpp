#include "collective/combine.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/loops.h"
#include "ops/promotion.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::collective {
namespace {

using kernels::BinaryLoop;
using kernels::BinaryOp;

// Elements that are computed at once: what is accumulated stays in the first-level cache.
constexpr std::size_t kBlock = 2048;
constexpr std::size_t kLargestItem = 16;

BinaryOp binary_of(Op op, DType dtype) {
  const bool truth = dtype == DType::kBool;
  switch (op) {
    case Op::kProduct: return BinaryOp::kMultiply;
    case Op::kMin: return truth ? BinaryOp::kLogicalAnd : BinaryOp::kMinimum;
    case Op::kMax: return truth ? BinaryOp::kLogicalOr : BinaryOp::kMaximum;
    default: return BinaryOp::kAdd;
  }
}

struct Loops {
  BinaryLoop combine = nullptr;
  BinaryLoop divide = nullptr;  // of a mean
  kernels::UnaryLoop widen = nullptr;
  kernels::UnaryLoop narrow = nullptr;
  std::ptrdiff_t item = 0;  // of the elements
  std::ptrdiff_t wide = 0;  // of what is computed with
  alignas(kLargestItem) std::array<std::byte, kLargestItem> divisor{};
};

Loops loops_for(Op op, DType dtype, std::size_t ranks) {
  const DType computed = ops::is_narrow(dtype) ? DType::kFloat32 : dtype;
  const kernels::Loops& all = kernels::loops();
  Loops loops;
  loops.combine = all.binary(binary_of(op, dtype), computed);
  if (op == Op::kMean) {
    loops.divide = all.binary(BinaryOp::kDivide, computed);
    (void)ops::write_number(static_cast<double>(ranks), computed, loops.divisor.data());
  }
  if (computed != dtype) {
    loops.widen = all.cast(dtype, computed);
    loops.narrow = all.cast(computed, dtype);
  }
  loops.item = static_cast<std::ptrdiff_t>(item_size(dtype));
  loops.wide = static_cast<std::ptrdiff_t>(item_size(computed));
  return loops;
}

using Scratch = std::array<std::byte, kBlock * kLargestItem>;

// One block whose elements are computed with as they are.
void combine_block(const Loops& loops, std::span<const std::byte* const> sources, std::ptrdiff_t at,
                   std::byte* out, std::ptrdiff_t count, Scratch& scratch) {
  const std::ptrdiff_t item = loops.item;
  const std::byte* so_far = sources[0] + at;
  for (std::size_t i = 1; i < sources.size(); ++i) {
    // `out` may be a source that is still to be read: only the last step writes it.
    std::byte* const into = i + 1 == sources.size() ? out + at : scratch.data();
    loops.combine(so_far, item, sources[i] + at, item, into, item, count);
    so_far = into;
  }
  if (loops.divide != nullptr) loops.divide(out + at, item, loops.divisor.data(), 0, out + at, item, count);
}

// One block of float16 or bfloat16.
void combine_narrow(const Loops& loops, std::span<const std::byte* const> sources, std::ptrdiff_t at,
                    std::byte* out, std::ptrdiff_t count, Scratch& sum, Scratch& next) {
  const std::ptrdiff_t wide = loops.wide;
  loops.widen(sources[0] + at, loops.item, sum.data(), wide, count);
  for (std::size_t i = 1; i < sources.size(); ++i) {
    loops.widen(sources[i] + at, loops.item, next.data(), wide, count);
    loops.combine(sum.data(), wide, next.data(), wide, sum.data(), wide, count);
  }
  if (loops.divide != nullptr)
    loops.divide(sum.data(), wide, loops.divisor.data(), 0, sum.data(), wide, count);
  loops.narrow(sum.data(), wide, out + at, loops.item, count);
}

}  // namespace

Status check_reduction(Op op, DType dtype) {
  const ops::Kind kind = ops::kind_of(dtype);
  std::string why;
  if (kind == ops::Kind::kBool && op != Op::kMin && op != Op::kMax)
    why = "bools have min (all of them) and max (any of them)";
  if (kind == ops::Kind::kComplex && (op == Op::kMin || op == Op::kMax))
    why = "complex numbers have no order";
  if (ops::is_integer(dtype) && op == Op::kMean)
    why = "the mean of integers is none; sum them, or convert them to a float first";
  if (op == Op::kNone) why = "it is none";
  if (why.empty() || op == Op::kFunction) return {};
  return {Code::kInvalid, "there is no reduction " + std::string(name_of(op)) + " of " +
                              std::string(name(dtype)) + ": " + why};
}

void combine(Op op, DType dtype, std::span<const std::byte* const> sources, std::byte* out,
             std::size_t count) {
  const Loops loops = loops_for(op, dtype, sources.size());
  if (sources.size() == 1) {
    if (out != sources[0]) sync::copy_bytes(out, sources[0], count * item_size(dtype));
    return;
  }
  alignas(64) Scratch scratch;
  alignas(64) Scratch next;
  for (std::size_t done = 0; done < count; done += kBlock) {
    const auto here = static_cast<std::ptrdiff_t>(std::min(kBlock, count - done));
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(done) * loops.item;
    if (loops.widen != nullptr) {
      combine_narrow(loops, sources, at, out, here, scratch, next);
    } else {
      combine_block(loops, sources, at, out, here, scratch);
    }
  }
}

}  // namespace forklift::inline abi_0_1::collective
