// Tensors of random numbers, by the numbers of the blocks of bits that they are made of.
//
//   Result<Plan> plan = plan_uniform({3, 4}, 0, 1, DType::kFloat32);
//   Result<Tensor> numbers = generate(*plan, {key, stream}, first_block);      // uses plan->blocks of them
//
// Errors, thread safety: as forklift/ops.h.
#pragma once

#include <cstdint>

#include "forklift/random.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::ops::random {

// Which sequence of blocks.
struct Source {
  std::uint64_t key;
  std::uint64_t stream;
};

// What to make of the blocks.
struct Plan {
  enum class Kind : std::uint8_t {
    kUniform,
    kNormal,
    kInteger
  };
  Kind kind;
  Dims shape;
  DType dtype;
  double offset = 0;         // the least number, or the mean
  double scale = 1;          // the range's width, or the deviation
  double end = 0;            // of uniform numbers
  std::int64_t least = 0;    // of integers
  std::uint64_t values = 0;  // how many different ones
  std::uint64_t blocks = 0;
};
Result<Plan> plan_uniform(Dims shape, double low, double high, DType dtype);
Result<Plan> plan_normal(Dims shape, double mean, double deviation, DType dtype);
Result<Plan> plan_integers(Dims shape, std::int64_t low, std::int64_t high, DType dtype);

Result<Tensor> generate(const Plan& plan, Source source, std::uint64_t first_block);

// int64, in the order of random numbers of 64 bits: two in a block.
inline std::uint64_t permutation_blocks(std::int64_t count) noexcept {
  return count <= 0 ? 0 : (static_cast<std::uint64_t>(count) + 1) / 2;
}
Result<Tensor> permuted_numbers(std::int64_t count, Source source, std::uint64_t first_block);

// The sequence of the child with that number.
Source child_of(Source source, std::uint64_t number) noexcept;

}  // namespace forklift::inline abi_0_1::ops::random
