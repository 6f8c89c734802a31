// What the host hands to a GPU's kernels: plain structs, which both compilers lay out alike.
//
//   MapParameters parameters{};
//   parameters.layout = *layout_of(walk);                      // kernels/cuda/strided.h
//   parameters.inputs[0] = {address, DType::kFloat32};
//   kernels->launch("forklift_map_f32", grid, parameters);     // kernels/cuda/launcher.h
//
// Addresses are the device's, as numbers. Steps are in bytes, and may be zero or negative.
//
// Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "forklift/dtype.h"

namespace forklift::inline abi_0_1::kernels::cuda {

// Threads in a block. Reductions and products of matrices share memory among so many.
inline constexpr unsigned kBlock = 256;
// Dimensions that are left after those that follow each other without a gap are joined.
inline constexpr int kMostDims = 12;
inline constexpr int kMostArrays = 4;
inline constexpr int kMostInputs = 3;
// How many elements a thread of a direct loop computes.
inline constexpr int kEach = 4;

// Division by a length below 2^31 as a product and a shift (Granlund and Montgomery, "Division by invariant integers
// using multiplication", PLDI 1994): a GPU has no instruction for it.
struct Divider {
  std::uint32_t length;
  std::uint32_t magic;
  std::uint32_t shift;
};

// Where the elements of several arrays of one shape lie. The last dimension is the innermost.
struct Layout {
  std::int64_t size;
  std::int32_t ndim;
  // Elements are numbered below 2^31, so that the dividers may be used.
  std::int32_t narrow;
  std::int64_t lengths[kMostDims];
  Divider dividers[kMostDims];
  std::int64_t steps[kMostArrays][kMostDims];
};

// The numbers of operations in MapParameters: a UnaryOp, a BinaryOp or the choice between two operands.
inline constexpr std::uint16_t kBinaryBase = 64;
inline constexpr std::uint16_t kSelect = 128;

struct Operand {
  std::uint64_t address;  // 0: the number in `constant`
  DType dtype;
  alignas(16) unsigned char constant[16];
};

// out = op(inputs...), element by element. The operands are converted to the type that the kernel is named after, and
// its result to `result`, and then to the dtype of `out`.
struct MapParameters {
  Layout layout;  // the arrays 0 to 2 are the inputs, 3 is `out`
  Operand inputs[kMostInputs];
  Operand out;
  std::uint16_t op;
  DType result;
  std::uint8_t bits;  // of `result`, for shifts
};

// The same where all arrays have one dtype (of comparisons, `out` has bools) and lie without gaps, or are one number.
struct DirectParameters {
  Operand inputs[2];
  std::int32_t steps[2];  // 1, or 0 of one number
  std::uint64_t out;
  std::int64_t size;
  std::uint16_t op;
};

// Items of one size from one place to another.
struct CopyParameters {
  Layout layout;  // of `from` and `to`
  std::uint64_t from;
  std::uint64_t to;
};

// The same where both are dense in one dimension each, and not in the same: to(r, c) = from(r, c), elements of `from` lying
// side by side along the rows' numbers r, and those of `to` along c. A block copies tiles of kTile x kTile through shared memory.
inline constexpr int kTile = 32;
struct TransposeParameters {
  Layout outer;  // of `from` and `to`, without the two dimensions
  std::uint64_t from;
  std::uint64_t to;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t from_step;  // bytes from one column to the next
  std::int64_t to_step;    // bytes from one row to the next
};

// Each result is one element of `kept`, reduced over all elements of `reduced`. A block computes 256 >> lanes_log2 results.
struct ReduceParameters {
  Layout kept;     // of the input and of the results
  Layout reduced;  // of the input
  std::uint64_t in;
  std::uint64_t out;
  std::uint8_t op;  // a ReduceOp; for extremes kMax or kMin
  DType in_dtype;
  DType out_dtype;
  // Neighbouring threads take neighbouring results, and not neighbouring elements of one.
  std::uint8_t across;
  std::uint8_t lanes_log2;
  // The input is accumulators of an earlier launch, [part][result], or the output is.
  std::uint8_t from_partial;
  std::uint8_t to_partial;
  std::int64_t parts;  // into which the reduced elements are split: gridDim.y
  double divisor;      // of a mean; 0: none
};

// out = a b for each matrix of a stack. Steps count elements.
struct MatmulParameters {
  Layout stack;  // of a, b and out; steps in bytes
  std::uint64_t a;
  std::uint64_t b;
  std::uint64_t out;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::int64_t a_steps[2];  // of rows, of columns
  std::int64_t b_steps[2];
  std::int64_t out_row_step;
};

// Memory of these sizes must hold accumulators that go between two launches of a reduction.
inline constexpr std::size_t kAccumulatorBytes = 32;

// A launch's parameters are limited to 4096 bytes (CUDA C++ Programming Guide, "Function Parameters").
static_assert(sizeof(MapParameters) <= 4096 && sizeof(ReduceParameters) <= 4096);

}  // namespace forklift::inline abi_0_1::kernels::cuda
