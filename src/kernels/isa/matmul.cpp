// Products of matrices: Eigen's, whose namespace is renamed, since its functions are compiled for other instructions in
// each variant; of large ones with AVX2 or AVX-512, blocked_product.h's. Those of integers, which Eigen has no vectors
// for, and of complex numbers, which are rare and would take as long to compile as everything else here, are loops of
// our own.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC's own header of AVX-512 (its bug 105593)
#pragma GCC diagnostic ignored "-Wignored-attributes"   // of vectors as arguments of templates
#endif
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#define FORKLIFT_JOIN2(a, b) a##b
#define FORKLIFT_JOIN(a, b) FORKLIFT_JOIN2(a, b)
#define Eigen FORKLIFT_JOIN(forklift_eigen_, FORKLIFT_ISA)
#include <Eigen/Core>

#include "kernels/isa/isa.h"
// Without fused multiplication a product needs one register more.
#ifdef __FMA__
#define FORKLIFT_BLOCKED_PRODUCTS
#include "kernels/isa/blocked_product.h"
#endif

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

template <class T, int order>
using Map = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, order>, Eigen::Unaligned,
                       Eigen::OuterStride<>>;

template <class T, int a_order, int b_order>
void product(const MatrixView& a, const MatrixView& b, const MatrixView& out) {
  const auto outer = [](const MatrixView& matrix, int order) {
    return Eigen::OuterStride<>(order == Eigen::RowMajor ? matrix.row_step : matrix.column_step);
  };
  const Map<T, a_order> left(reinterpret_cast<const T*>(a.data), a.rows, a.columns, outer(a, a_order));
  const Map<T, b_order> right(reinterpret_cast<const T*>(b.data), b.rows, b.columns, outer(b, b_order));
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
             Eigen::OuterStride<>>
      result(reinterpret_cast<T*>(out.data), out.rows, out.columns, Eigen::OuterStride<>(out.row_step));
  result.noalias() = left * right;
}

template <class T>
void matmul(const MatrixView& a, const MatrixView& b, const MatrixView& out) {
#ifdef FORKLIFT_BLOCKED_PRODUCTS
  if (blocked_product_pays(a, out) && blocked_product<T>(a, b, out)) return;
#endif
  const bool a_rows = a.column_step == 1;
  const bool b_rows = b.column_step == 1;
  if (a_rows && b_rows) return product<T, Eigen::RowMajor, Eigen::RowMajor>(a, b, out);
  if (a_rows) return product<T, Eigen::RowMajor, Eigen::ColMajor>(a, b, out);
  if (b_rows) return product<T, Eigen::ColMajor, Eigen::RowMajor>(a, b, out);
  return product<T, Eigen::ColMajor, Eigen::ColMajor>(a, b, out);
}

// Row by row of the result, adding multiples of the rows of `b`.
template <class T>
void integer_matmul(const MatrixView& a, const MatrixView& b, const MatrixView& out) {
  const T* const left = reinterpret_cast<const T*>(a.data);
  const T* const right = reinterpret_cast<const T*>(b.data);
  T* const result = reinterpret_cast<T*>(out.data);
  for (std::ptrdiff_t i = 0; i < out.rows; ++i) {
    T* const row = result + i * out.row_step;
    for (std::ptrdiff_t j = 0; j < out.columns; ++j) row[j] = 0;
    for (std::ptrdiff_t k = 0; k < a.columns; ++k) {
      const auto factor = widen(left[i * a.row_step + k * a.column_step]);
      const T* const other = right + k * b.row_step;
      if (b.column_step == 1) {
#pragma omp simd
        for (std::ptrdiff_t j = 0; j < out.columns; ++j)
          row[j] = static_cast<T>(widen(row[j]) + factor * widen(other[j]));
      } else {
        for (std::ptrdiff_t j = 0; j < out.columns; ++j)
          row[j] = static_cast<T>(widen(row[j]) + factor * widen(other[j * b.column_step]));
      }
    }
  }
}

template <class T>
void complex_matmul(const MatrixView& a, const MatrixView& b, const MatrixView& out) {
  const T* const left = reinterpret_cast<const T*>(a.data);
  const T* const right = reinterpret_cast<const T*>(b.data);
  T* const result = reinterpret_cast<T*>(out.data);
  for (std::ptrdiff_t i = 0; i < out.rows; ++i) {
    T* const row = result + i * out.row_step;
    for (std::ptrdiff_t j = 0; j < out.columns; ++j) row[j] = {0, 0};
    for (std::ptrdiff_t k = 0; k < a.columns; ++k) {
      const T factor = left[i * a.row_step + k * a.column_step];
      const T* const other = right + k * b.row_step;
#pragma omp simd
      for (std::ptrdiff_t j = 0; j < out.columns; ++j) {
        const T each = other[j * b.column_step];
        row[j].re += factor.re * each.re - factor.im * each.im;
        row[j].im += factor.re * each.im + factor.im * each.re;
      }
    }
  }
}

}  // namespace

MatrixLoop matmul(DType dtype) noexcept {
  return with_type(dtype, MatrixLoop(nullptr), [](auto type) -> MatrixLoop {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, Bool>) {
      return nullptr;
    } else if constexpr (is_complex<T>) {
      return complex_matmul<T>;
    } else if constexpr (is_int<T>) {
      return integer_matmul<T>;
    } else {
      return matmul<T>;
    }
  });
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
