// Products of matrices, in each variant that this processor can run, beside sums in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/variants.h"

namespace forklift::inline abi_0_1::kernels {
namespace {

std::vector<const Loops*> variants() {
  std::vector<const Loops*> found{&base::kLoops};
#if defined(__x86_64__)
  if (avx2::can_run()) found.push_back(&avx2::kLoops);
  if (avx512::can_run()) found.push_back(&avx512::kLoops);
#endif
  return found;
}

// A matrix whose lines have gaps. What lies in the gaps and around is not a number, so that whoever uses it shows.
template <class T>
class Matrix {
 public:
  Matrix(std::ptrdiff_t rows, std::ptrdiff_t columns, bool by_rows, std::ptrdiff_t gap, unsigned seed)
      : rows_(rows), columns_(columns), by_rows_(by_rows), step_((by_rows ? columns : rows) + gap) {
    const std::ptrdiff_t lines = by_rows ? rows : columns;
    values_.assign(static_cast<std::size_t>(lines * step_ + 2 * kMargin), kNone);
    unsigned state = seed;
    for (std::ptrdiff_t i = 0; i < rows; ++i) {
      for (std::ptrdiff_t j = 0; j < columns; ++j) {
        state = state * 1664525U + 1013904223U;
        at(i, j) = static_cast<T>(state >> 8) / static_cast<T>(1U << 23) - T(1);
      }
    }
  }
  T& at(std::ptrdiff_t row, std::ptrdiff_t column) {
    return values_[static_cast<std::size_t>(kMargin +
                                            (by_rows_ ? row * step_ + column : column * step_ + row))];
  }
  MatrixView view() {
    return {reinterpret_cast<std::byte*>(values_.data() + kMargin), rows_, columns_, by_rows_ ? step_ : 1,
            by_rows_ ? 1 : step_};
  }
  void clear() { values_.assign(values_.size(), kNone); }
  // How many elements are numbers.
  std::ptrdiff_t numbers() const {
    std::ptrdiff_t count = 0;
    for (const T value : values_) count += std::isnan(value) ? 0 : 1;
    return count;
  }

 private:
  static constexpr std::ptrdiff_t kMargin = 9;
  static constexpr T kNone = std::numeric_limits<T>::quiet_NaN();
  std::ptrdiff_t rows_;
  std::ptrdiff_t columns_;
  bool by_rows_;
  std::ptrdiff_t step_;
  std::vector<T> values_;
};

struct Case {
  std::ptrdiff_t rows;
  std::ptrdiff_t columns;
  std::ptrdiff_t depth;
};

template <class T>
void expect_product(DType dtype, const Case& size) {
  Matrix<T> first(size.rows, size.depth, true, 0, 1);
  Matrix<T> second(size.depth, size.columns, true, 0, 2);
  std::vector<long double> expected;
  for (std::ptrdiff_t i = 0; i < size.rows; ++i) {
    for (std::ptrdiff_t j = 0; j < size.columns; ++j) {
      long double sum = 0;
      for (std::ptrdiff_t k = 0; k < size.depth; ++k)
        sum += static_cast<long double>(first.at(i, k)) * static_cast<long double>(second.at(k, j));
      expected.push_back(sum);
    }
  }
  const double limit =
      static_cast<double>(size.depth) * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const Loops* const loops : variants()) {
    for (const int order : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(loops->instructions) + ": " + std::to_string(size.rows) + " x " +
                   std::to_string(size.depth) + " times " + std::to_string(size.depth) + " x " +
                   std::to_string(size.columns) + ", order " + std::to_string(order));
      Matrix<T> a(size.rows, size.depth, (order & 1) == 0, 3, 1);
      Matrix<T> b(size.depth, size.columns, (order & 2) == 0, 5, 2);
      Matrix<T> out(size.rows, size.columns, true, 7, 3);
      out.clear();
      loops->matmul(dtype)(a.view(), b.view(), out.view());
      EXPECT_EQ(out.numbers(), size.rows * size.columns)
          << "a result is missing, or something else was written";
      double worst = 0;
      for (std::ptrdiff_t i = 0; i < size.rows; ++i) {
        for (std::ptrdiff_t j = 0; j < size.columns; ++j) {
          const long double right = expected[static_cast<std::size_t>(i * size.columns + j)];
          const auto error = static_cast<double>(std::abs(right - static_cast<long double>(out.at(i, j))));
          worst = std::max(worst, error);
        }
      }
      EXPECT_LE(worst, limit);
    }
  }
}

// Below and above what is made by blocks (128 x 128 x 128, 64 columns, 4 rows, a depth of 8); each kind of rest: of rows
// (8 and 4), of columns (48, 24 and 12; 16, 8 and 4) and of depth (4); several blocks of rows (192), columns (2016) and
// depth (256).
const Case kCases[] = {{1, 1, 1},       {3, 5, 7},       {48, 48, 48},    {127, 127, 127}, {128, 128, 128},
                       {129, 131, 127}, {130, 134, 256}, {131, 137, 257}, {197, 77, 259},  {5, 700, 600},
                       {4, 96, 5500},   {390, 68, 96},   {62, 66, 1000},  {3, 900, 800},   {900, 63, 80},
                       {900, 64, 80},   {520, 520, 8},   {520, 520, 7},   {6, 2100, 170},  {5, 2050, 270},
                       {7, 2020, 150},  {135, 90, 190}};

TEST(MatmulTest, ProductsOfEachSizeAndOrder) {
  for (const Case& size : kCases) {
    expect_product<float>(DType::kFloat32, size);
    expect_product<double>(DType::kFloat64, size);
  }
}

// What is not finite stays in its row and its column: the zeros beside the last lines multiply nothing that counts.
TEST(MatmulTest, WhatIsNotFiniteStaysInItsRowAndColumn) {
  for (const Loops* const loops : variants()) {
    Matrix<double> a(130, 128, true, 0, 1);
    Matrix<double> b(128, 133, true, 0, 2);
    Matrix<double> out(130, 133, true, 0, 3);
    a.at(129, 127) = std::numeric_limits<double>::infinity();
    b.at(3, 132) = std::numeric_limits<double>::quiet_NaN();
    loops->matmul(DType::kFloat64)(a.view(), b.view(), out.view());
    for (std::ptrdiff_t i = 0; i < 130; ++i) {
      for (std::ptrdiff_t j = 0; j < 133; ++j) {
        EXPECT_EQ(std::isnan(out.at(i, j)), j == 132) << loops->instructions << ' ' << i << ' ' << j;
        EXPECT_EQ(std::isinf(out.at(i, j)), i == 129 && j != 132)
            << loops->instructions << ' ' << i << ' ' << j;
      }
    }
  }
}

}  // namespace
}  // namespace forklift::inline abi_0_1::kernels
