// Reductions and products of matrices on a GPU.
#include <gmock/gmock.h>

#include "forklift/sorting.h"
#include "kernels/cuda/blas.h"
#include "ops/gpu_fixture.h"

namespace forklift::test {
namespace {

using testing::HasSubstr;

double sum_error(DType dtype) { return dtype < DType::kFloat16 ? kExact : function_error(dtype); }

TEST_F(GpuOpsTest, ReductionsOfAllDtypes) {
  const struct {
    const char* name;
    Tensor (*compute)(const Tensor&, const ops::Reduction&, ops::Out);
  } all[] = {{"sum", ops::sum}, {"prod", ops::prod}, {"max", ops::max},  {"min", ops::min},
             {"all", ops::all}, {"any", ops::any},   {"mean", ops::mean}};
  for (const auto& each : all) {
    for (const DType dtype : all_dtypes()) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::string(name(dtype)));
      const double error =
          std::string_view(each.name) == "mean" ? 1e-13 + sum_error(dtype) : sum_error(dtype);
      const auto reduced = [&](const Dims& axes) {
        return [&, axes](const Operands& x) { return each.compute(x[0], {.axes = axes}, {}); };
      };
      const Operands x{finite(dtype, {5, 33, 12})};
      expect_same(x, error, [&](const Operands& a) { return each.compute(a[0], {}, {}); });
      for (const Dims& axes : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{0, 1}, Dims{}}) {
        SCOPED_TRACE(axes.to_string());
        expect_same(x, error, reduced(axes));
      }
      expect_same(x, error, [&](const Operands& a) {
        return each.compute(a[0].transpose(0, 2).slice(1, std::nullopt, std::nullopt, -2),
                            {.axes = Dims{1}, .keepdims = true}, {});
      });
    }
  }
}

TEST_F(GpuOpsTest, LargeReductionsAreSplit) {
  // One result of many elements, a few, and many: along the elements' order and across it.
  for (const DType dtype :
       {DType::kFloat32, DType::kInt8, DType::kBool, DType::kComplex64, DType::kFloat16}) {
    SCOPED_TRACE(name(dtype));
    const double error = sum_error(dtype);
    const Operands long_line{finite(dtype, {70001})};
    expect_same(long_line, error, [](const Operands& x) { return ops::sum(x[0]); });
    expect_same({finite(dtype, {3, 30001})}, error,
                [](const Operands& x) { return ops::sum(x[0], {.axes = Dims{1}}); });
    expect_same({finite(dtype, {30001, 3})}, error,
                [](const Operands& x) { return ops::sum(x[0], {.axes = Dims{0}}); });
    expect_same({finite(dtype, {301, 310})}, error,
                [](const Operands& x) { return ops::sum(x[0], {.axes = Dims{0}}); });
    if (dtype == DType::kComplex64) continue;
    expect_same(long_line, kExact, [](const Operands& x) { return ops::argmax(x[0]); });
    expect_same(long_line, kExact, [](const Operands& x) { return ops::argmin(x[0]); });
    expect_same({finite(dtype, {30001, 3})}, kExact, [](const Operands& x) { return ops::argmax(x[0], 0); });
  }
}

TEST_F(GpuOpsTest, NanWinsInExtremes) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const std::int64_t length : {1, 2, 5, 300, 20000}) {
      SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(length));
      const Operands x{sample(dtype, {length})};
      // Of zeros with two signs any may be the extreme.
      expect_same(x, 1e-300, [](const Operands& a) { return ops::max(a[0]); });
      expect_same(x, 1e-300, [](const Operands& a) { return ops::min(a[0]); });
      expect_same(x, kExact, [](const Operands& a) { return ops::argmax(a[0]); });
      expect_same(x, kExact, [](const Operands& a) { return ops::argmin(a[0]); });
    }
  }
}

TEST_F(GpuOpsTest, IndicesOfExtremes) {
  for (const DType dtype : all_dtypes()) {
    SCOPED_TRACE(name(dtype));
    const Operands x{finite(dtype, {7, 40, 6})};
    for (const std::int64_t axis : {0, 1, 2, -1}) {
      expect_same(x, kExact, [axis](const Operands& a) { return ops::argmax(a[0], axis); });
      expect_same(x, kExact, [axis](const Operands& a) { return ops::argmin(a[0], axis, true); });
    }
    expect_same(x, kExact, [](const Operands& a) { return ops::argmax(a[0].transpose(0, 1)); });
  }
  expect_same({Tensor::empty({0}, DType::kFloat32)}, kExact,
              [](const Operands& a) { return ops::argmax(a[0]); });
}

TEST_F(GpuOpsTest, VarianceAndTheRest) {
  for (const DType dtype :
       {DType::kInt16, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64}) {
    SCOPED_TRACE(name(dtype));
    const double error = dtype == DType::kInt16 ? 1e-12 : 4 * function_error(dtype);
    const Operands x{finite(dtype, {20, 30})};
    expect_same(x, error, [](const Operands& a) { return ops::var(a[0]); });
    expect_same(x, error,
                [](const Operands& a) { return ops::std(a[0], 1, {.axes = Dims{0}, .keepdims = true}); });
    expect_same(x, error, [](const Operands& a) { return ops::vecdot(a[0], a[0]); });
  }
  const Operands bools{sample(DType::kBool, {9, 50})};
  expect_same(bools, kExact, [](const Operands& a) { return ops::count_nonzero(a[0], Dims{1}); });
  expect_same(bools, kExact, [](const Operands& a) { return ops::sum(a[0], {.dtype = DType::kUInt8}); });
  const Tensor none = Tensor::empty({0, 3}, DType::kFloat32);
  expect_same({none}, kExact, [](const Operands& a) { return ops::sum(a[0], {.axes = Dims{0}}); });
  expect_same({none}, kExact, [](const Operands& a) { return ops::mean(a[0], {.axes = Dims{0}}); });
  expect_same({none}, kExact, [](const Operands& a) { return ops::max(a[0], {.axes = Dims{0}}); });
  expect_same({finite(DType::kFloat32, {})}, kExact, [](const Operands& a) { return ops::sum(a[0]); });
  // Into a tensor without C order, of another dtype.
  expect_same({finite(DType::kFloat32, {10, 20, 30}), finite(DType::kFloat64, {30, 10})}, 1e-12,
              [](const Operands& a) { return ops::sum(a[0], {.axes = Dims{1}}, a[1].transpose(0, 1)); });
}

TEST_F(GpuOpsTest, ReductionsOverManyDimensions) {
  const Dims twos(16, 2);
  Dims every_second;
  for (std::int64_t dim = 0; dim < 16; dim += 2) every_second.push_back(dim);
  expect_same({finite(DType::kInt32, twos)}, kExact,
              [&](const Operands& x) { return ops::sum(x[0], {.axes = every_second}); });
  // More than a layout has: 14 dimensions stay, none of which joins another.
  Dims turned;
  for (std::int64_t dim = 15; dim >= 0; --dim) turned.push_back(dim);
  expect_same({finite(DType::kInt32, twos)}, kExact,
              [&](const Operands& x) { return ops::max(x[0].permute(turned), {.axes = Dims{3, 9}}); });
}

// By which library products are computed: a parameter of the tests that follow.
class GpuMatmulTest : public GpuOpsTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    GpuOpsTest::SetUp();
    ::setenv("FORKLIFT_LIBCUBLAS", GetParam(), 1);
    EXPECT_EQ(kernels::cuda::Blas::find() != nullptr, *GetParam() != '\0');
  }
};

TEST_P(GpuMatmulTest, ProductsOfMatricesOfAllDtypes) {
  for (const DType dtype : all_dtypes()) {
    SCOPED_TRACE(name(dtype));
    const double error = dtype < DType::kFloat16 ? kExact : 4 * function_error(dtype);
    const Compute product = [](const Operands& x) { return ops::matmul(x[0], x[1]); };
    expect_same({finite(dtype, {5, 7}, 1), finite(dtype, {7, 3}, 2)}, error, product);
    expect_same({finite(dtype, {70, 65}, 1), finite(dtype, {65, 130}, 2)}, error, product);
    expect_same({finite(dtype, {9}, 1), finite(dtype, {9, 4}, 2)}, error, product);
    expect_same({finite(dtype, {4, 9}, 1), finite(dtype, {9}, 2)}, error, product);
    expect_same({finite(dtype, {9}, 1), finite(dtype, {9}, 2)}, error, product);
    expect_same({finite(dtype, {2, 1, 6, 5}, 1), finite(dtype, {3, 5, 8}, 2)}, error, product);
    expect_same({finite(dtype, {4, 0}, 1), finite(dtype, {0, 3}, 2)}, error, product);
  }
}

TEST_P(GpuMatmulTest, ProductsOfMatricesThatLieOtherwise) {
  const Operands x{finite(DType::kFloat32, {6, 20, 30}, 1), finite(DType::kFloat32, {6, 20, 30}, 2)};
  expect_same(x, 1e-4, [](const Operands& a) { return ops::matmul(a[0].transpose(1, 2), a[1]); });
  expect_same(x, 1e-4, [](const Operands& a) { return ops::matmul(a[0], a[1].transpose(1, 2)); });
  expect_same(x, 1e-4, [](const Operands& a) {
    return ops::matmul(a[0].slice(2, 0, 30, 2).slice(1, std::nullopt, std::nullopt, -1),
                       a[1].slice(2, 1, 30, 2).transpose(1, 2));
  });
  expect_same(x, 1e-4, [](const Operands& a) { return ops::tensordot(a[0], a[1], Dims{0, 2}, Dims{0, 2}); });
  expect_same({x[0], x[1], finite(DType::kFloat32, {6, 20, 20})}, 1e-4,
              [](const Operands& a) { return ops::matmul(a[0], a[1].transpose(1, 2), a[2]); });
  expect_same({finite(DType::kFloat32, {3, 4}), finite(DType::kInt64, {4, 5})}, 1e-12,
              [](const Operands& a) { return ops::matmul(a[0], a[1]); });
  const Tensor bools = sample(DType::kBool, {3, 3}).to("GPU");
  EXPECT_THROW(ops::matmul(bools, bools), Error);
}

INSTANTIATE_TEST_SUITE_P(Own, GpuMatmulTest, testing::Values(""));
INSTANTIATE_TEST_SUITE_P(Cublas, GpuMatmulTest, testing::Values(FORKLIFT_TEST_FAKE_CUBLAS));

}  // namespace
}  // namespace forklift::test
