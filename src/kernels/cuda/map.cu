// Elementwise operations on a GPU: forklift_map_* with any dtypes and strides, forklift_direct_* where the elements of one
// dtype lie without gaps, and forklift_copy_* and forklift_transpose_* for items as they are.
//
// A map kernel has all operations, which it tells apart by a switch that all threads take alike: the memory is the limit of
// most of them, and a kernel for each would take minutes to compile. The direct kernels are for what a program does most;
// each of their operations has a loop of its own, which needs few registers and has several loads on the way.
#include "kernels/cuda/binary.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/parameters.h"
#include "kernels/cuda/place.cuh"
#include "kernels/cuda/unary.cuh"

namespace forklift::kernels::cuda {

template <class T>
__device__ inline T operand_of(const Operand& operand, std::int64_t offset) {
  const std::uint64_t address = operand.address != 0 ? operand.address + static_cast<std::uint64_t>(offset)
                                                     : reinterpret_cast<std::uint64_t>(operand.constant);
  return load<T>(operand.dtype, address);
}

template <class T>
__device__ inline T mapped(const MapParameters& p, const std::int64_t (&offsets)[kMostArrays]) {
  if (p.op == kSelect) {
    const Operand& mask = p.inputs[0];
    const std::uint64_t at = mask.address != 0 ? mask.address + static_cast<std::uint64_t>(offsets[0])
                                               : reinterpret_cast<std::uint64_t>(mask.constant);
    return truth(mask.dtype, at) ? operand_of<T>(p.inputs[1], offsets[1])
                                 : operand_of<T>(p.inputs[2], offsets[2]);
  }
  const T a = operand_of<T>(p.inputs[0], offsets[0]);
  if (p.op < kBinaryBase) return unary_of(static_cast<UnaryOp>(p.op), a);
  return binary_of(static_cast<BinaryOp>(p.op - kBinaryBase), a, operand_of<T>(p.inputs[1], offsets[1]),
                   p.bits);
}

// A value as an element of `dtype` would hold it, where it is stored as another.
template <class T>
__device__ inline T through(DType dtype, T value) {
  alignas(16) unsigned char item[16];
  const auto address = reinterpret_cast<std::uint64_t>(item);
  store(dtype, address, value);
  return load<T>(dtype, address);
}

template <class T>
__device__ inline void map(const MapParameters& p) {
  for (std::int64_t number = thread_number(); number < p.layout.size; number += thread_count()) {
    std::int64_t offsets[kMostArrays];
    locate(p.layout, number, offsets);
    T value = mapped<T>(p, offsets);
    if constexpr (is_int<T>) {
      if (p.result != p.out.dtype) value = through(p.result, value);
    }
    store(p.out.dtype, p.out.address + static_cast<std::uint64_t>(offsets[kMostInputs]), value);
  }
}

// What elements of E are computed in.
template <class E>
using Computed = std::conditional_t<std::is_same_v<E, Half> || std::is_same_v<E, Brain>, float, E>;

// Each block takes kBlock * kEach elements, and neighbouring threads neighbouring ones. A number that is no element has the
// type in which is computed.
template <class E, class Out, int inputs, class Function>
__device__ inline void direct_loop(const DirectParameters& p, Function function) {
  using T = Computed<E>;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kBlock * kEach) + threadIdx.x;
  T values[kEach][inputs];
  for (int k = 0; k < inputs; ++k) {
    const Operand& operand = p.inputs[k];
    if (operand.address == 0) {
      const T number = at<T>(reinterpret_cast<std::uint64_t>(operand.constant));
      for (int each = 0; each < kEach; ++each) values[each][k] = number;
      continue;
    }
    const auto* const from = reinterpret_cast<const E*>(operand.address);
#pragma unroll
    for (int each = 0; each < kEach; ++each) {
      const std::int64_t i = first + each * static_cast<std::int64_t>(kBlock);
      // Behind the end the first element is read, and not used.
      values[each][k] = converted<T>(from[i < p.size ? i * p.steps[k] : 0]);
    }
  }
#pragma unroll
  for (int each = 0; each < kEach; ++each) {
    const std::int64_t i = first + each * static_cast<std::int64_t>(kBlock);
    if (i < p.size)
      reinterpret_cast<Out*>(p.out)[i] = converted<Out>(function(values[each][0], values[each][inputs - 1]));
  }
}

// The host's list of these operations is is_direct() in kernels/cuda/launcher.h.
template <class E>
__device__ inline void direct(const DirectParameters& p) {
  using T = Computed<E>;
  switch (p.op) {
    case static_cast<unsigned>(UnaryOp::kPositive): return direct_loop<E, E, 1>(p, [](T a, T) { return a; });
    case static_cast<unsigned>(UnaryOp::kNegative):
      return direct_loop<E, E, 1>(p, [](T a, T) { return negated(a); });
    case static_cast<unsigned>(UnaryOp::kAbs):
      return direct_loop<E, E, 1>(p, [](T a, T) { return unary_of(UnaryOp::kAbs, a); });
    case static_cast<unsigned>(UnaryOp::kSquare):
      return direct_loop<E, E, 1>(p, [](T a, T) { return product_of(a, a); });
    case kBinaryBase + static_cast<unsigned>(BinaryOp::kAdd):
      return direct_loop<E, E, 2>(p, [](T a, T b) { return sum_of(a, b); });
    case kBinaryBase + static_cast<unsigned>(BinaryOp::kSubtract):
      return direct_loop<E, E, 2>(p, [](T a, T b) { return difference_of(a, b); });
    case kBinaryBase + static_cast<unsigned>(BinaryOp::kMultiply):
      return direct_loop<E, E, 2>(p, [](T a, T b) { return product_of(a, b); });
    case kBinaryBase + static_cast<unsigned>(BinaryOp::kMaximum):
      return direct_loop<E, E, 2>(p, [](T a, T b) { return larger_of(a, b); });
    case kBinaryBase + static_cast<unsigned>(BinaryOp::kMinimum):
      return direct_loop<E, E, 2>(p, [](T a, T b) { return smaller_of(a, b); });
    default: break;
  }
  if constexpr (is_real<T>) {
    if (p.op == static_cast<unsigned>(UnaryOp::kSqrt))
      return direct_loop<E, E, 1>(p, [](T a, T) { return std::sqrt(a); });
    if (p.op == kBinaryBase + static_cast<unsigned>(BinaryOp::kDivide))
      return direct_loop<E, E, 2>(p, [](T a, T b) { return a / b; });
  }
  const auto op = static_cast<BinaryOp>(p.op - kBinaryBase);
  direct_loop<E, Bool, 2>(p, [op](T a, T b) { return compared(op, a, b); });
}

// Items of 1, 2, 4, 8 or 16 bytes. Complex numbers need the alignment of their parts only.
template <class Word, int words>
__device__ inline void copy(const CopyParameters& p) {
  for (std::int64_t number = thread_number(); number < p.layout.size; number += thread_count()) {
    std::int64_t offsets[2];
    locate(p.layout, number, offsets);
    const auto* const from = reinterpret_cast<const Word*>(p.from + static_cast<std::uint64_t>(offsets[0]));
    auto* const to = reinterpret_cast<Word*>(p.to + static_cast<std::uint64_t>(offsets[1]));
    for (int k = 0; k < words; ++k) to[k] = from[k];
  }
}

template <class Word, int words>
struct Item {
  Word parts[words];
};

template <class Word, int words>
__device__ inline void transpose(const TransposeParameters& p) {
  using E = Item<Word, words>;
  // One column more than needed: threads that read a column use different banks.
  __shared__ E tile[kTile][kTile + 1];
  constexpr int kRows = static_cast<int>(kBlock) / kTile;
  const int across = static_cast<int>(threadIdx.x) % kTile;
  const int down = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t column_tiles = (p.columns + kTile - 1) / kTile;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / column_tiles * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) % column_tiles * kTile;
  for (std::int64_t number = blockIdx.y; number < p.outer.size; number += gridDim.y) {
    std::int64_t offsets[2];
    locate(p.outer, number, offsets);
    for (int c = down; c < kTile; c += kRows) {
      if (row + across >= p.rows || column + c >= p.columns) continue;
      const std::int64_t offset =
          offsets[0] + (row + across) * static_cast<std::int64_t>(sizeof(E)) + (column + c) * p.from_step;
      tile[c][across] = at<E>(p.from + static_cast<std::uint64_t>(offset));
    }
    __syncthreads();
    for (int r = down; r < kTile; r += kRows) {
      if (row + r >= p.rows || column + across >= p.columns) continue;
      const std::int64_t offset =
          offsets[1] + (row + r) * p.to_step + (column + across) * static_cast<std::int64_t>(sizeof(E));
      put(p.to + static_cast<std::uint64_t>(offset), tile[across][r]);
    }
    __syncthreads();
  }
}

}  // namespace forklift::kernels::cuda

using namespace forklift::kernels::cuda;  // NOLINT(google-build-using-namespace): of this file's kernels

extern "C" {

__global__ void forklift_map_i64(const __grid_constant__ MapParameters p) { map<std::int64_t>(p); }
__global__ void forklift_map_u64(const __grid_constant__ MapParameters p) { map<std::uint64_t>(p); }
__global__ void forklift_map_f32(const __grid_constant__ MapParameters p) { map<float>(p); }
__global__ void forklift_map_f64(const __grid_constant__ MapParameters p) { map<double>(p); }
__global__ void forklift_map_c64(const __grid_constant__ MapParameters p) { map<Complex<float>>(p); }
__global__ void forklift_map_c128(const __grid_constant__ MapParameters p) { map<Complex<double>>(p); }

__global__ void forklift_direct_i32(const __grid_constant__ DirectParameters p) { direct<std::int32_t>(p); }
__global__ void forklift_direct_i64(const __grid_constant__ DirectParameters p) { direct<std::int64_t>(p); }
__global__ void forklift_direct_f16(const __grid_constant__ DirectParameters p) { direct<Half>(p); }
__global__ void forklift_direct_bf16(const __grid_constant__ DirectParameters p) { direct<Brain>(p); }
__global__ void forklift_direct_f32(const __grid_constant__ DirectParameters p) { direct<float>(p); }
__global__ void forklift_direct_f64(const __grid_constant__ DirectParameters p) { direct<double>(p); }

__global__ void forklift_copy_1(const __grid_constant__ CopyParameters p) { copy<std::uint8_t, 1>(p); }
__global__ void forklift_copy_2(const __grid_constant__ CopyParameters p) { copy<std::uint16_t, 1>(p); }
__global__ void forklift_copy_4(const __grid_constant__ CopyParameters p) { copy<std::uint32_t, 1>(p); }
__global__ void forklift_copy_8(const __grid_constant__ CopyParameters p) { copy<std::uint32_t, 2>(p); }
__global__ void forklift_copy_16(const __grid_constant__ CopyParameters p) { copy<std::uint32_t, 4>(p); }

__global__ void forklift_transpose_1(const __grid_constant__ TransposeParameters p) {
  transpose<std::uint8_t, 1>(p);
}
__global__ void forklift_transpose_2(const __grid_constant__ TransposeParameters p) {
  transpose<std::uint16_t, 1>(p);
}
__global__ void forklift_transpose_4(const __grid_constant__ TransposeParameters p) {
  transpose<std::uint32_t, 1>(p);
}
__global__ void forklift_transpose_8(const __grid_constant__ TransposeParameters p) {
  transpose<std::uint32_t, 2>(p);
}
__global__ void forklift_transpose_16(const __grid_constant__ TransposeParameters p) {
  transpose<std::uint32_t, 4>(p);
}

}  // extern "C"
