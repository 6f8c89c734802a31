// Shapes, parts and new tensors from C++, and reductions' corner cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "forklift/error.h"
#include "forklift/ops.h"

namespace forklift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Arrangement, PartsAndViews) {
  const Tensor x = ops::arange(0, 6).reshape({2, 3});
  const std::vector<Tensor> both{x, x};
  EXPECT_EQ(ops::concat(both, 1).shape(), (Dims{2, 6}));
  EXPECT_EQ(ops::stack(both, -1).shape(), (Dims{2, 3, 2}));
  EXPECT_EQ(ops::expand_dims(x, 1).shape(), (Dims{2, 1, 3}));
  EXPECT_EQ(ops::squeeze(ops::expand_dims(x, 1), Dims{1}).shape(), x.shape());
  EXPECT_EQ(ops::flip(x).at<std::int64_t>({0, 0}), 5);
  const Tensor wide = ops::broadcast_to(x, {4, 2, 3});
  EXPECT_TRUE(wide.readonly());
  EXPECT_EQ(wide.at<const std::int64_t>({3, 1, 2}), 5);
  const Tensor turned = ops::reshape(x.transpose(0, 1), {-1});
  EXPECT_THAT(turned.span<std::int64_t>(), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(Arrangement, NewOnes) {
  EXPECT_EQ(ops::full({2}, 1.5).dtype(), DType::kFloat32);
  EXPECT_THAT(ops::arange(1, 10, 4, DType::kInt8).span<std::int8_t>(), ElementsAre(1, 5, 9));
  EXPECT_THAT(ops::linspace(0, 1, 3).span<float>(), ElementsAre(0.0F, 0.5F, 1.0F));
  try {
    ops::concat({});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("concat: no tensors"));
  }
}

TEST(Arrangement, ReductionsOfLittle) {
  EXPECT_EQ(ops::sum(Tensor::zeros({0, 3}, DType::kFloat32)).at<float>({}), 0.0F);
  EXPECT_TRUE(std::isnan(ops::mean(Tensor::zeros({0}, DType::kFloat64)).at<double>({})));
  EXPECT_TRUE(ops::all(Tensor::zeros({0}, DType::kBool)).at<bool>({}));
  EXPECT_EQ(ops::prod(ops::full({3}, 2), {.axes = Dims{0}, .keepdims = true}).shape(), (Dims{1}));
  EXPECT_EQ(ops::matmul(ops::full({2, 0}, 1.0), ops::full({0, 2}, 1.0)).at<float>({1, 1}), 0.0F);
}

}  // namespace
}  // namespace forklift
