// Products of matrices on a GPU, for builds and machines without cuBLAS, and for integers, which cuBLAS does not multiply.
//
// A block computes a tile of the result, and each of its 16 x 16 threads a smaller square of it in registers. Strips of both
// operands go through shared memory, so that each element is read once for each tile that needs it.
#include "kernels/cuda/binary.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/parameters.h"
#include "kernels/cuda/place.cuh"

namespace forklift::kernels::cuda {

// What is accumulated in: the wrapped sum of integers does not depend on their sign.
template <class E>
using Total = std::conditional_t<std::is_same_v<E, Half> || std::is_same_v<E, Brain>, float, E>;

template <class T>
__device__ inline T multiplied_and_added(T a, T b, T sum) {
  if constexpr (is_complex<T>) {
    return {sum.re + a.re * b.re - a.im * b.im, sum.im + a.re * b.im + a.im * b.re};
  } else if constexpr (is_real<T>) {
    return std::fma(a, b, sum);
  } else {
    return static_cast<T>(sum + product_of(a, b));
  }
}

// `square`: rows and columns of the result that a thread computes.
template <class E, int square>
__device__ inline void multiply(const MatmulParameters& p) {
  using T = Total<E>;
  constexpr int kThreads = 16;
  constexpr int kTile = kThreads * square;
  constexpr int kStrip = 16;
  // One column more than needed: threads that write a column use different banks.
  __shared__ T left[kStrip][kTile + 1];
  __shared__ T right[kStrip][kTile + 1];
  const auto column_tiles = (p.columns + kTile - 1) / kTile;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / column_tiles * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) % column_tiles * kTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int own_row = thread / kThreads;
  const int own_column = thread % kThreads;
  for (std::int64_t matrix = blockIdx.y; matrix < p.stack.size; matrix += gridDim.y) {
    std::int64_t offsets[3];
    locate(p.stack, matrix, offsets);
    const auto* const a = reinterpret_cast<const E*>(p.a + static_cast<std::uint64_t>(offsets[0]));
    const auto* const b = reinterpret_cast<const E*>(p.b + static_cast<std::uint64_t>(offsets[1]));
    auto* const out = reinterpret_cast<E*>(p.out + static_cast<std::uint64_t>(offsets[2]));
    T sums[square][square] = {};
    for (std::int64_t depth = 0; depth < p.depth; depth += kStrip) {
      // Neighbouring threads read neighbouring elements: along the dimension whose step is 1.
      const bool a_by_rows = p.a_steps[1] == 1;
      const bool b_by_rows = p.b_steps[1] == 1;
      for (int i = thread; i < kTile * kStrip; i += static_cast<int>(kBlock)) {
        const int r = a_by_rows ? i / kStrip : i % kTile;
        const int k = a_by_rows ? i % kStrip : i / kTile;
        const bool is_there = row + r < p.rows && depth + k < p.depth;
        left[k][r] = is_there ? converted<T>(a[(row + r) * p.a_steps[0] + (depth + k) * p.a_steps[1]]) : T{};
        const int c = b_by_rows ? i % kTile : i / kStrip;
        const int l = b_by_rows ? i / kTile : i % kStrip;
        const bool is_here = column + c < p.columns && depth + l < p.depth;
        right[l][c] =
            is_here ? converted<T>(b[(depth + l) * p.b_steps[0] + (column + c) * p.b_steps[1]]) : T{};
      }
      __syncthreads();
      for (int k = 0; k < kStrip; ++k) {
        T of_a[square];
        T of_b[square];
        for (int i = 0; i < square; ++i) of_a[i] = left[k][own_row + i * kThreads];
        for (int j = 0; j < square; ++j) of_b[j] = right[k][own_column + j * kThreads];
        for (int i = 0; i < square; ++i) {
          for (int j = 0; j < square; ++j) sums[i][j] = multiplied_and_added(of_a[i], of_b[j], sums[i][j]);
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < square; ++i) {
      const std::int64_t r = row + own_row + i * kThreads;
      for (int j = 0; j < square; ++j) {
        const std::int64_t c = column + own_column + j * kThreads;
        if (r < p.rows && c < p.columns) out[r * p.out_row_step + c] = converted<E>(sums[i][j]);
      }
    }
  }
}

}  // namespace forklift::kernels::cuda

using namespace forklift::kernels::cuda;  // NOLINT(google-build-using-namespace): of this file's kernels

extern "C" {

__global__ void forklift_matmul_u8(const __grid_constant__ MatmulParameters p) {
  multiply<std::uint8_t, 2>(p);
}
__global__ void forklift_matmul_u16(const __grid_constant__ MatmulParameters p) {
  multiply<std::uint16_t, 2>(p);
}
__global__ void forklift_matmul_u32(const __grid_constant__ MatmulParameters p) {
  multiply<std::uint32_t, 2>(p);
}
__global__ void forklift_matmul_u64(const __grid_constant__ MatmulParameters p) {
  multiply<std::uint64_t, 2>(p);
}
__global__ void forklift_matmul_f16(const __grid_constant__ MatmulParameters p) { multiply<Half, 4>(p); }
__global__ void forklift_matmul_bf16(const __grid_constant__ MatmulParameters p) { multiply<Brain, 4>(p); }
__global__ void forklift_matmul_f32(const __grid_constant__ MatmulParameters p) { multiply<float, 4>(p); }
__global__ void forklift_matmul_f64(const __grid_constant__ MatmulParameters p) { multiply<double, 4>(p); }
__global__ void forklift_matmul_c64(const __grid_constant__ MatmulParameters p) {
  multiply<Complex<float>, 2>(p);
}
__global__ void forklift_matmul_c128(const __grid_constant__ MatmulParameters p) {
  multiply<Complex<double>, 2>(p);
}

}  // extern "C"
