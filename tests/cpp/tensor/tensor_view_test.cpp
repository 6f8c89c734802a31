#include "forklift/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <utility>

#include "forklift/error.h"
#include "support/counting.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using test::code_of;
using test::counting;
using testing::HasSubstr;

TEST(TensorView, ReadsAndWritesTheTensorsElements) {
  const Tensor tensor = counting({3, 4});
  const auto view = tensor.view<std::int32_t, 2>();
  static_assert(std::same_as<decltype(view), const TensorView<std::int32_t, 2>>);
  static_assert(view.rank() == 2 && TensorView<float, 3>::rank() == 3);
  EXPECT_EQ(view.data(), tensor.data<std::int32_t>());
  EXPECT_EQ(view.extent(0), 3);
  EXPECT_EQ(view.extent(1), 4);
  EXPECT_EQ(view.stride(0), 4);
  EXPECT_EQ(view.stride(1), 1);
  EXPECT_EQ(view.size(), 12);
  for (std::int64_t i = 0; i < view.extent(0); ++i) {
    for (std::int64_t j = 0; j < view.extent(1); ++j) {
      EXPECT_EQ(view(i, j), 4 * i + j);
      EXPECT_EQ(view.at(i, j), 4 * i + j);
    }
  }
  view(1, 2) = -1;
  view.at(2, 3) -= 100;
  EXPECT_EQ(tensor.at<std::int32_t>({1, 2}), -1);
  EXPECT_EQ(tensor.at<std::int32_t>({2, 3}), -89);
}

TEST(TensorView, TakesIndicesOfAnyIntegerType) {
  const Tensor tensor = counting({3, 4});
  const TensorView<std::int32_t, 2> view(tensor);
  static_assert(std::invocable<decltype(view), int, int> && !std::invocable<decltype(view), int>);
  static_assert(!std::invocable<decltype(view), int, int, int> &&
                !std::invocable<decltype(view), int, double>);
  EXPECT_EQ(view(std::uint8_t{2}, std::size_t{1}), 9);
  EXPECT_EQ(view.at(std::int16_t{-1}, 1U), 9);
}

TEST(TensorView, OfAnotherTypeOrRankIsAnError) {
  const Tensor tensor = counting({3, 4});
  EXPECT_EQ(code_of([&] { return tensor.view<float, 2>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return tensor.view<std::uint32_t, 2>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return tensor.view<const float, 2>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return tensor.view<std::int32_t, 0>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return tensor.view<std::int32_t, 1>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return tensor.view<std::int32_t, 3>(); }), Code::kInvalid);
  try {
    (void)tensor.view<float, 2>();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("int32(3, 4) accessed as float32"));
  }
  try {
    (void)tensor.view<std::int32_t, 3>();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a view of 3 dimensions of int32(3, 4)"));
  }
}

TEST(TensorView, AtCountsNegativeIndicesFromTheEnd) {
  const Tensor tensor = counting({3, 4});
  const auto view = tensor.view<std::int32_t, 2>();
  EXPECT_EQ(view.at(-1, -1), 11);
  EXPECT_EQ(view.at(-3, -4), 0);
  EXPECT_EQ(view.at(1, -2), 6);
  EXPECT_EQ(&view.at(-1, 0), &view(2, 0));
}

TEST(TensorView, AtChecksEveryIndex) {
  const Tensor tensor = counting({3, 4});
  const auto view = tensor.view<std::int32_t, 2>();
  using Pair = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [i, j] :
       {Pair{3, 0}, {0, 4}, {-4, 0}, {0, -5}, {INT64_MAX, 0}, {0, INT64_MIN}, {3, 4}, {0, 12}}) {
    EXPECT_EQ(code_of([&, a = i, b = j] { return view.at(a, b); }), Code::kInvalid) << i << ' ' << j;
  }
  try {
    (void)view.at(0, -5);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no index -5 in dimension 1 of length 4"));
  }
}

TEST(TensorView, FollowsAnyStrides) {
  const Tensor tensor = counting({3, 4});
  const Tensor turned = tensor.transpose(0, 1).slice(0, {}, {}, -2);  // columns 3 and 1, as rows
  const auto view = turned.view<std::int32_t, 2>();
  EXPECT_EQ(view.extent(0), 2);
  EXPECT_EQ(view.extent(1), 3);
  EXPECT_EQ(view.stride(0), -2);
  EXPECT_EQ(view.stride(1), 4);
  EXPECT_EQ(view(0, 0), 3);
  EXPECT_EQ(view(0, 2), 11);
  EXPECT_EQ(view(1, 1), 5);
  EXPECT_EQ(view.at(-1, -1), 9);
  view(1, 1) = 77;
  EXPECT_EQ(tensor.at<std::int32_t>({1, 1}), 77);

  const Tensor repeated = Tensor::wrap_strided(tensor.storage(), DType::kInt32, {5, 4}, {0, 1});
  const auto same = repeated.view<std::int32_t, 2>();
  EXPECT_EQ(same.size(), 20);
  EXPECT_EQ(&same(4, 2), &same(0, 2));
  // The stride of a dimension of one element does not matter.
  const Tensor one = Tensor::wrap_strided(tensor.storage(), DType::kInt32, {1}, {INT64_MIN});
  EXPECT_EQ((one.view<std::int32_t, 1>().at(-1)), 0);
}

TEST(TensorView, OfAReadOnlyTensorIsConst) {
  const Tensor tensor = counting({2, 2});
  const Tensor frozen = tensor.as_readonly();
  EXPECT_EQ(code_of([&] { return frozen.view<std::int32_t, 2>(); }), Code::kInvalid);
  const auto view = frozen.view<const std::int32_t, 2>();
  static_assert(std::same_as<decltype(view(0, 0)), const std::int32_t&>);
  static_assert(std::same_as<decltype(view.at(0, 0)), const std::int32_t&>);
  static_assert(std::same_as<decltype(view)::value_type, std::int32_t>);
  EXPECT_EQ(view(1, 0), 2);
  EXPECT_EQ(view.at(-1, -1), 3);
  tensor.at<std::int32_t>({1, 0}) = 9;
  EXPECT_EQ(view(1, 0), 9);
  EXPECT_EQ((tensor.view<const std::int32_t, 2>()(0, 1)), 1) << "of one that is not, it may be";
}

TEST(TensorView, OfAScalarAndOfNothing) {
  const Tensor scalar = counting({});
  const auto one = scalar.view<std::int32_t, 0>();
  EXPECT_EQ(one.size(), 1);
  one() = 4;
  EXPECT_EQ(one.at(), 4);
  EXPECT_EQ(scalar.at<std::int32_t>({}), 4);

  const Tensor nothing = counting({3, 0});
  const auto none = nothing.view<std::int32_t, 2>();
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(code_of([&] { return none.at(0, 0); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return none.at(0, -1); }), Code::kInvalid);
  EXPECT_EQ((Tensor().view<float, 1>().data()), nullptr);
}

}  // namespace
}  // namespace forklift
