// Sorting, searching, sets and accumulation from C++, and the parts that they are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "forklift/error.h"
#include "forklift/sorting.h"
#include "ops/range_job.h"
#include "ops/sort_items.h"
#include "ops/sort_key.h"

namespace forklift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor numbers(const std::vector<double>& values) {
  Tensor made = Tensor::empty({static_cast<std::int64_t>(values.size())}, DType::kFloat64);
  for (std::size_t i = 0; i < values.size(); ++i) made.span<double>()[i] = values[i];
  return made;
}

template <class T>
void expect_ordered(const std::vector<T>& ascending) {
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i)
    EXPECT_LT(ops::key_of(ascending[i]), ops::key_of(ascending[i + 1])) << i;
}

TEST(SortKey, OrdersAsTheElements) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_ordered<double>({-kInf, -1.5, -1e-300, 0, 1e-300, 2, kInf, kNan});
  EXPECT_EQ(ops::key_of(-kNan), ops::key_of(kNan));
  EXPECT_EQ(ops::key_of(-0.0), ops::key_of(0.0));
  EXPECT_LT(ops::exact_key_of(-0.0), ops::exact_key_of(0.0));
  expect_ordered<std::int8_t>({-128, -1, 0, 127});
  expect_ordered<std::uint64_t>({0, 1, std::numeric_limits<std::uint64_t>::max()});
  expect_ordered<Float16>({Float16(-2), Float16(0), Float16(0.5), Float16(std::nanf(""))});
  using Complex = std::complex<double>;
  expect_ordered<Complex>({{-1, 5}, {1, -2}, {1, 3}, {kInf, 0}, {1, kNan}, {kNan, 1}, {kNan, kNan}});
}

TEST(SortKey, BecomesTheElementAgain) {
  for (const float value : {-1.5F, -0.0F, 0.0F, 3e38F, -std::numeric_limits<float>::infinity()}) {
    const auto back = ops::value_of<float>(ops::exact_key_of(value));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back), std::bit_cast<std::uint32_t>(value));
  }
  EXPECT_EQ(ops::value_of<std::int16_t>(ops::exact_key_of(std::int16_t{-7})), -7);
}

TEST(SortItems, MergesAnyPart) {
  const std::vector<std::uint32_t> a{1, 3, 3, 8};
  const std::vector<std::uint32_t> b{0, 3, 9};
  const std::vector<std::uint32_t> expected{0, 1, 3, 3, 3, 8, 9};
  for (std::int64_t first = 0; first <= 7; ++first) {
    for (std::int64_t last = first; last <= 7; ++last) {
      std::vector<std::uint32_t> out(static_cast<std::size_t>(last - first));
      ops::merge_part(a.data(), 4, b.data(), 3, first, last, out.data());
      EXPECT_EQ(out, std::vector<std::uint32_t>(expected.begin() + first, expected.begin() + last));
    }
  }
}

TEST(Sorting, SortsAndFinds) {
  const Tensor x = numbers({3, 1, 2, 1});
  EXPECT_THAT(ops::sort(x).span<double>(), ElementsAre(1, 1, 2, 3));
  EXPECT_THAT(ops::sort(x, {.descending = true}).span<double>(), ElementsAre(3, 2, 1, 1));
  EXPECT_THAT(ops::argsort(x).span<std::int64_t>(), ElementsAre(1, 3, 2, 0));
  const Tensor line = ops::sort(x);
  EXPECT_THAT(ops::searchsorted(line, numbers({1, 2.5})).span<std::int64_t>(), ElementsAre(0, 3));
  EXPECT_THAT(ops::searchsorted(line, numbers({1}), ops::Side::kAfter).span<std::int64_t>(), ElementsAre(2));
  EXPECT_THAT(ops::isin(x, numbers({1, 7})).span<bool>(), ElementsAre(false, true, false, true));
  const auto [values, indices, inverse, counts] = ops::unique_all(x);
  EXPECT_THAT(values.span<double>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(indices.span<std::int64_t>(), ElementsAre(1, 2, 0));
  EXPECT_THAT(inverse.span<std::int64_t>(), ElementsAre(2, 0, 1, 0));
  EXPECT_THAT(counts.span<std::int64_t>(), ElementsAre(2, 1, 1));
}

TEST(Sorting, ALineThatIsSortedInPieces) {
  constexpr std::int64_t kLength = 200'000;
  Tensor x = Tensor::empty({kLength}, DType::kInt64);
  for (std::int64_t i = 0; i < kLength; ++i)
    x.span<std::int64_t>()[static_cast<std::size_t>(i)] = i * 7'919 % kLength;
  const Tensor sorted = ops::sort(x);
  const Tensor order = ops::argsort(x, {.descending = true});
  for (std::int64_t i = 0; i < kLength; ++i) {
    const auto k = static_cast<std::size_t>(i);
    ASSERT_EQ(sorted.span<std::int64_t>()[k], i);
    ASSERT_EQ(x.span<std::int64_t>()[static_cast<std::size_t>(order.span<std::int64_t>()[k])],
              kLength - 1 - i);
  }
}

TEST(Sorting, CountsAndAccumulates) {
  const Tensor x = ops::arange(0, 6).reshape({2, 3});
  const std::vector<Tensor> places = ops::nonzero(ops::greater(x, 3));
  ASSERT_EQ(places.size(), 2U);
  EXPECT_THAT(places[0].span<std::int64_t>(), ElementsAre(1, 1));
  EXPECT_THAT(places[1].span<std::int64_t>(), ElementsAre(1, 2));
  EXPECT_EQ(ops::count_nonzero(x).at<std::int64_t>({}), 5);
  EXPECT_THAT(ops::cumulative_sum(x, {.axis = 0}).span<std::int64_t>(), ElementsAre(0, 1, 2, 3, 5, 7));
  EXPECT_THAT(ops::cumulative_prod(ops::arange(1, 4), {.dtype = DType::kInt8, .include_initial = true})
                  .span<std::int8_t>(),
              ElementsAre(1, 1, 2, 6));
  EXPECT_THAT(ops::diff(x).span<std::int64_t>(), ElementsAre(1, 1, 1, 1));
  try {
    ops::cumulative_sum(x);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cumulative_sum(int64(2, 3)): axis must be named"));
  }
}

TEST(RangeJob, FailsWithoutMemoryInsteadOfEnding) {
  for (const double nanoseconds : {1.0, 1e9}) {  // computed at once, and by the executor
    const Tensor out = numbers({1, 2, 3});
    const Status status = ops::compute_range("sort", {&out}, out, 3, nanoseconds,
                                             [](std::int64_t, std::int64_t) { throw std::bad_alloc(); });
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_THAT(std::string(status.what()), HasSubstr("sort"));
  }
}

}  // namespace
}  // namespace forklift
