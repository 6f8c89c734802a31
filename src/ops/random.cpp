#include "ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <utility>

#include "kernels/philox.h"
#include "ops/arrangement.h"
#include "ops/element_type.h"
#include "ops/promotion.h"
#include "ops/range_job.h"
#include "ops/sorting.h"
#include "ops/walk.h"
#include "tensor/extent.h"

namespace forklift::inline abi_0_1::ops::random {
namespace {

using kernels::PhiloxBlock;

// Sequences that serve other ends have other keys.
constexpr std::uint64_t kChildren = 0x5851F42D4C957F2D;
constexpr std::uint64_t kNextAttempt = 0x9E3779B97F4A7C15;

PhiloxBlock block_of(Source source, std::uint64_t number) noexcept {
  return kernels::philox(
      {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
       static_cast<std::uint32_t>(source.stream), static_cast<std::uint32_t>(source.stream >> 32)},
      {static_cast<std::uint32_t>(source.key), static_cast<std::uint32_t>(source.key >> 32)});
}

std::uint64_t half_of(const PhiloxBlock& block, std::size_t half) noexcept {
  return block[2 * half] | std::uint64_t{block[2 * half + 1]} << 32;
}

// In [0, 1).
double fraction(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1p-53; }

// The product's upper 64 bits; the lower ones in `low`.
std::uint64_t multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& low) noexcept {
  const std::uint64_t a_low = a & 0xFFFFFFFF;
  const std::uint64_t b_low = b & 0xFFFFFFFF;
  const std::uint64_t lowest = a_low * b_low;
  const std::uint64_t middle = (a >> 32) * b_low + (lowest >> 32);
  const std::uint64_t other = a_low * (b >> 32) + (middle & 0xFFFFFFFF);
  low = a * b;
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

// One of `values` numbers, each equally likely (Lemire, "Fast random integer generation in an interval", 2019): bits
// that would favour some are dropped, and the next ones are of another key and the element's number.
std::uint64_t choose(std::uint64_t bits, std::uint64_t values, Source source,
                     std::uint64_t element) noexcept {
  std::uint64_t low = 0;
  std::uint64_t chosen = multiply(bits, values, low);
  if (low >= values) return chosen;
  const std::uint64_t unfair = (0 - values) % values;
  while (low < unfair) {
    source.key += kNextAttempt;
    chosen = multiply(half_of(block_of(source, element), 0), values, low);
  }
  return chosen;
}

// How the blocks become elements: so many each, written one behind the other.
template <class T, std::size_t count>
using Elements = std::array<T, count>;

template <class T>
struct Uniform {
  static constexpr std::size_t kPerBlock = sizeof(T) == 4 ? 4 : 2;
  static auto make(const Plan& plan, const PhiloxBlock& block, Source, std::uint64_t) noexcept {
    Elements<T, kPerBlock> made;
    for (std::size_t i = 0; i < kPerBlock; ++i) {
      const double unit =
          sizeof(T) == 4 ? static_cast<double>(block[i] >> 8) * 0x1p-24 : fraction(half_of(block, i % 2));
      // Rounded once, whether or not the processor has such an instruction.
      const auto value = static_cast<T>(std::fma(unit, plan.scale, plan.offset));
      const auto end = static_cast<T>(plan.end);
      made[i] = value < end ? value : std::nextafter(end, static_cast<T>(plan.offset));
    }
    return made;
  }
};

// Box and Muller's: two uniform numbers make two normal ones.
template <class T>
struct Normal {
  static constexpr std::size_t kPerBlock = sizeof(T) == 4 ? 4 : 2;
  static auto make(const Plan& plan, const PhiloxBlock& block, Source, std::uint64_t) noexcept {
    Elements<T, kPerBlock> made;
    for (std::size_t i = 0; i < kPerBlock; i += 2) {
      const bool narrow = sizeof(T) == 4;
      // Not 0, which has no logarithm.
      const double radius = narrow ? (static_cast<double>(block[i]) + 1) * 0x1p-32
                                   : (static_cast<double>(half_of(block, 0) >> 11) + 1) * 0x1p-53;
      const double turn = narrow ? static_cast<double>(block[i + 1]) * 0x1p-32 : fraction(half_of(block, 1));
      const double distance = std::sqrt(-2 * std::log(radius)) * plan.scale;
      const double angle = 2 * std::numbers::pi * turn;
      made[i] = static_cast<T>(plan.offset + distance * std::cos(angle));
      made[i + 1] = static_cast<T>(plan.offset + distance * std::sin(angle));
    }
    return made;
  }
};

template <class T>
struct Whole {
  static constexpr std::size_t kPerBlock = 2;
  static auto make(const Plan& plan, const PhiloxBlock& block, Source source, std::uint64_t number) noexcept {
    Elements<T, kPerBlock> made;
    for (std::size_t i = 0; i < kPerBlock; ++i) {
      const std::uint64_t bits = half_of(block, i);
      // No values: all of 64 bits.
      const std::uint64_t value = plan.values == 0 ? bits : choose(bits, plan.values, source, 2 * number + i);
      made[i] = static_cast<T>(static_cast<std::uint64_t>(plan.least) + value);
    }
    return made;
  }
};

template <template <class> class Maker, class T>
Status fill(const Plan& plan, Source source, std::uint64_t first_block, const Tensor& out, double block_ns) {
  using Make = Maker<T>;
  const auto blocks = static_cast<std::int64_t>(plan.blocks);
  return compute_range("random", {}, out, blocks, static_cast<double>(blocks) * block_ns,
                       [plan, source, first_block, size = out.numel(), to = address_of(out)](
                           std::int64_t first, std::int64_t last) {
                         constexpr auto kPerBlock = static_cast<std::int64_t>(Make::kPerBlock);
                         for (std::int64_t i = first; i < last; ++i) {
                           const std::uint64_t number = first_block + static_cast<std::uint64_t>(i);
                           const auto made = Make::make(plan, block_of(source, number), source, number);
                           const std::int64_t begin = i * kPerBlock;
                           const std::int64_t count = std::min(kPerBlock, size - begin);
                           std::memcpy(to + begin * static_cast<std::int64_t>(sizeof(T)), made.data(),
                                       static_cast<std::size_t>(count) * sizeof(T));
                         }
                       });
}

Status refused(std::string_view name, const std::string& why) {
  return {Code::kInvalid, "random." + std::string(name) + ": " + why};
}

std::uint64_t blocks_for(std::int64_t elements, std::int64_t per_block) {
  return static_cast<std::uint64_t>((elements + per_block - 1) / per_block);
}

Result<Plan> plan_reals(std::string_view name, Plan plan) {
  if (plan.dtype != DType::kFloat32 && plan.dtype != DType::kFloat64)
    return refused(name, "float32 or float64, not " + std::string(forklift::name(plan.dtype)));
  Result<std::int64_t> count = tensor::byte_count(plan.shape, 1);
  if (!count) return count.status();
  plan.blocks = blocks_for(*count, plan.dtype == DType::kFloat32 ? 4 : 2);
  return plan;
}

}  // namespace

Result<Plan> plan_uniform(Dims shape, double low, double high, DType dtype) {
  if (!(low < high) || !std::isfinite(high - low))
    return refused("uniform", "no numbers from " + std::to_string(low) + " to " + std::to_string(high));
  return plan_reals("uniform", {Plan::Kind::kUniform, std::move(shape), dtype, low, high - low, high});
}

Result<Plan> plan_normal(Dims shape, double mean, double deviation, DType dtype) {
  if (!(deviation >= 0)) return refused("normal", "a deviation of " + std::to_string(deviation));
  return plan_reals("normal", {Plan::Kind::kNormal, std::move(shape), dtype, mean, deviation});
}

Result<Plan> plan_integers(Dims shape, std::int64_t low, std::int64_t high, DType dtype) {
  const std::string range = "from " + std::to_string(low) + " to before " + std::to_string(high);
  if (low >= high) return refused("integers", "no numbers " + range);
  std::byte room[kMostItemBytes];
  if (!is_integer(dtype) || !write_number(Number(low), dtype, room) ||
      !write_number(Number(high - 1), dtype, room))
    return refused("integers", std::string(name(dtype)) + " does not hold the numbers " + range);
  Result<std::int64_t> count = tensor::byte_count(shape, 1);
  if (!count) return count.status();
  Plan plan{Plan::Kind::kInteger, std::move(shape), dtype};
  plan.least = low;
  plan.values = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  plan.blocks = blocks_for(*count, 2);
  return plan;
}

Result<Tensor> generate(const Plan& plan, Source source, std::uint64_t first_block) {
  Result<Tensor> out = uninitialized(plan.shape, plan.dtype);
  if (!out) return out;
  if (queue_of(*out) != nullptr) {
    return {Code::kUnsupported,
            "random: a GPU does not make random numbers; make them with the target \"CPU\", "
            "and copy them with to()"};
  }
  Status status = with_element(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return plan.kind == Plan::Kind::kUniform ? fill<Uniform, T>(plan, source, first_block, *out, 15)
                                               : fill<Normal, T>(plan, source, first_block, *out, 60);
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return fill<Whole, T>(plan, source, first_block, *out, 15);
    } else {
      return Status();  // no plan is made for it
    }
  });
  if (!status) return status;
  return out;
}

Result<Tensor> permuted_numbers(std::int64_t count, Source source, std::uint64_t first_block) {
  if (count < 0) return refused("permutation", std::to_string(count) + " numbers");
  Plan plan{Plan::Kind::kInteger, Dims{count}, DType::kUInt64};
  plan.blocks = permutation_blocks(count);
  Result<Tensor> keys = generate(plan, source, first_block);
  return keys ? sorting_order(*keys, {}) : keys;
}

Source child_of(Source source, std::uint64_t number) noexcept {
  const PhiloxBlock block = block_of({source.key ^ kChildren, source.stream}, number);
  return {half_of(block, 0), half_of(block, 1)};
}

}  // namespace forklift::inline abi_0_1::ops::random
