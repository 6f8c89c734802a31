// Reductions on a GPU: forklift_reduce_* for sums, products, extremes, all and any, forklift_extreme_* for the indices of
// extremes.
//
// A block of 256 threads computes several results; 1 to 256 of its threads ("lanes") share the elements of one, and add
// theirs up in shared memory. Few results of many elements are split between blocks along y: each writes accumulators,
// which a second launch reduces. The order depends on the shape alone, and nothing is atomic, so a result is the same in
// each run.
#include "kernels/cuda/binary.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/parameters.h"
#include "kernels/cuda/place.cuh"

namespace forklift::kernels::cuda {

template <class T>
__device__ inline T infinity_or_most(bool positive) {
  if constexpr (is_complex<T>) {
    return {0, 0};  // there are no extremes of complex numbers
  } else if constexpr (is_real<T>) {
    return positive ? static_cast<T>(HUGE_VAL) : -static_cast<T>(HUGE_VAL);
  } else if constexpr (std::is_signed_v<T>) {
    return positive ? INT64_MAX : INT64_MIN;
  } else {
    return positive ? UINT64_MAX : 0;
  }
}

// How a reduction accumulates: what an accumulator begins with, what an element is, and how two become one. The operation
// is told apart when the kernel runs, as dtypes are, once for each kBatch elements.
template <class T>
struct Values {
  using Accumulator = T;
  ReduceOp op;

  __device__ T start() const {
    switch (op) {
      case ReduceOp::kProd:
      case ReduceOp::kAll: return truth_as<T>(true);
      case ReduceOp::kMax: return infinity_or_most<T>(false);
      case ReduceOp::kMin: return infinity_or_most<T>(true);
      default: return T{};
    }
  }
  __device__ T of(T value, std::int64_t) const {
    return op == ReduceOp::kAll || op == ReduceOp::kAny ? truth_as<T>(is_true(value)) : value;
  }
  __device__ T both(T a, T b) const {
    switch (op) {
      case ReduceOp::kSum: return sum_of(a, b);
      case ReduceOp::kProd: return product_of(a, b);
      case ReduceOp::kAll: return truth_as<T>(is_true(a) && is_true(b));
      case ReduceOp::kAny: return truth_as<T>(is_true(a) || is_true(b));
      default: break;
    }
    if constexpr (!is_complex<T>) return op == ReduceOp::kMax ? larger_of(a, b) : smaller_of(a, b);
    return a;
  }
};

// The first of several equal ones counts, and the first NaN before all numbers. No element: index -1.
template <class T>
struct Indexed {
  T value;
  std::int64_t index;
};
template <class T>
struct FirstExtremes {
  using Accumulator = Indexed<T>;
  ReduceOp op;

  __device__ Accumulator start() const { return {T{}, -1}; }
  __device__ Accumulator of(T value, std::int64_t index) const { return {value, index}; }
  __device__ Accumulator both(Accumulator a, Accumulator b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return (a.value > b.value) == (op == ReduceOp::kMax) ? a : b;
    return a.index < b.index ? a : b;
  }
};

// So many loads are on the way at once.
constexpr int kBatch = 4;

// Accumulates the elements first, first + step, ... below `last` that begin at `base`.
template <class T, class How>
__device__ inline typename How::Accumulator accumulated_elements(const ReduceParameters& p, How how,
                                                                 std::uint64_t base, std::int64_t first,
                                                                 std::int64_t last, std::int64_t step) {
  const std::int64_t distance = p.reduced.ndim == 0 ? 0 : p.reduced.steps[0][0];
  auto total = how.start();
  for (std::int64_t i = first; i < last; i += kBatch * step) {
    std::uint64_t addresses[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      // Behind the last element the last one is read again, and not used.
      const std::int64_t number = i + k * step < last ? i + k * step : i;
      std::int64_t offsets[1] = {number * distance};
      if (p.reduced.ndim > 1) locate(p.reduced, number, offsets);
      addresses[k] = base + static_cast<std::uint64_t>(offsets[0]);
    }
    T values[kBatch] = {};
    with_element(p.in_dtype, [&](auto zero) {
      using E = decltype(zero);
      if constexpr (is_read_as<T, E>) {
#pragma unroll
        for (int k = 0; k < kBatch; ++k) values[k] = converted<T>(at<E>(addresses[k]));
      }
    });
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (i + k * step < last) total = how.both(total, how.of(values[k], i + k * step));
    }
  }
  return total;
}

template <class T, class How>
__device__ inline typename How::Accumulator accumulated(const ReduceParameters& p, How how,
                                                        std::int64_t result, std::int64_t first,
                                                        std::int64_t last, std::int64_t step) {
  if (p.from_partial == 0) {
    std::int64_t offsets[2];
    locate(p.kept, result, offsets);
    return accumulated_elements<T>(p, how, p.in + static_cast<std::uint64_t>(offsets[0]), first, last, step);
  }
  const auto* const partial = reinterpret_cast<const typename How::Accumulator*>(p.in);
  auto total = how.start();
  for (std::int64_t i = first; i < last; i += step)
    total = how.both(total, partial[i * p.kept.size + result]);
  return total;
}

__device__ inline double divided(double value, double by) { return value / by; }
__device__ inline Complex<double> divided(Complex<double> value, double by) {
  return {value.re / by, value.im / by};
}

template <class T>
__device__ inline void store_result(const ReduceParameters& p, std::uint64_t address, T value) {
  if constexpr (!is_int<T>) {
    if (p.divisor != 0) value = divided(value, p.divisor);
  }
  store(p.out_dtype, address, value);
}
template <class T>
__device__ inline void store_result(const ReduceParameters&, std::uint64_t address, Indexed<T> value) {
  put(address, value.index < 0 ? std::int64_t{0} : value.index);
}

template <class T, class How>
__device__ inline void reduce(const ReduceParameters& p, How how) {
  using Accumulator = typename How::Accumulator;
  static_assert(sizeof(Accumulator) <= kAccumulatorBytes);
  __shared__ Accumulator totals[kBlock];
  const unsigned thread = threadIdx.x;
  const unsigned lanes = 1u << p.lanes_log2;
  const unsigned results = kBlock >> p.lanes_log2;
  const unsigned lane = p.across != 0 ? thread / results : thread % lanes;
  const unsigned slot = p.across != 0 ? thread % results : thread / lanes;
  const unsigned apart = p.across != 0 ? results : 1;  // threads between neighbouring lanes
  // This block's part of the elements.
  const std::int64_t part = blockIdx.y;
  const std::int64_t size = p.reduced.size;
  const std::int64_t begin = size / p.parts * part + size % p.parts * part / p.parts;
  const std::int64_t end = size / p.parts * (part + 1) + size % p.parts * (part + 1) / p.parts;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * results; first < p.kept.size;
       first += static_cast<std::int64_t>(gridDim.x) * results) {
    const std::int64_t result = first + slot;
    const bool is_mine = result < p.kept.size;
    Accumulator total = is_mine ? accumulated<T>(p, how, result, begin + lane, end, lanes) : how.start();
    totals[thread] = total;
    __syncthreads();
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
      if (lane < half) totals[thread] = how.both(totals[thread], totals[thread + half * apart]);
      __syncthreads();
    }
    if (lane == 0 && is_mine) {
      total = totals[thread];
      if (p.to_partial != 0) {
        reinterpret_cast<Accumulator*>(p.out)[part * p.kept.size + result] = total;
      } else {
        std::int64_t offsets[2];
        locate(p.kept, result, offsets);
        store_result(p, p.out + static_cast<std::uint64_t>(offsets[1]), total);
      }
    }
    __syncthreads();
  }
}

template <class T>
__device__ inline void reduce_values(const ReduceParameters& p) {
  reduce<T>(p, Values<T>{static_cast<ReduceOp>(p.op)});
}
template <class T>
__device__ inline void find_extremes(const ReduceParameters& p) {
  reduce<T>(p, FirstExtremes<T>{static_cast<ReduceOp>(p.op)});
}

}  // namespace forklift::kernels::cuda

using namespace forklift::kernels::cuda;  // NOLINT(google-build-using-namespace): of this file's kernels

extern "C" {

__global__ void forklift_reduce_i64(const __grid_constant__ ReduceParameters p) {
  reduce_values<std::int64_t>(p);
}
__global__ void forklift_reduce_u64(const __grid_constant__ ReduceParameters p) {
  reduce_values<std::uint64_t>(p);
}
__global__ void forklift_reduce_f64(const __grid_constant__ ReduceParameters p) { reduce_values<double>(p); }
__global__ void forklift_reduce_c128(const __grid_constant__ ReduceParameters p) {
  reduce_values<Complex<double>>(p);
}

__global__ void forklift_extreme_i64(const __grid_constant__ ReduceParameters p) {
  find_extremes<std::int64_t>(p);
}
__global__ void forklift_extreme_u64(const __grid_constant__ ReduceParameters p) {
  find_extremes<std::uint64_t>(p);
}
__global__ void forklift_extreme_f64(const __grid_constant__ ReduceParameters p) { find_extremes<double>(p); }

}  // extern "C"
