#include "forklift/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "tensor/extent.h"

namespace forklift {
namespace {

using tensor::byte_count;
using tensor::byte_extent;
using tensor::check_within;
using tensor::Extent;
using tensor::numel;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST(Dims, KeepsItsValuesInlineAndOnTheHeap) {
  for (const std::size_t count : {0u, 1u, 8u, 9u, 64u, 100u}) {
    Dims dims;
    for (std::size_t i = 0; i < count; ++i) dims.push_back(static_cast<std::int64_t>(i * i));
    ASSERT_EQ(dims.size(), count);
    Dims copy = dims;
    EXPECT_EQ(copy, dims);
    Dims moved = std::move(copy);
    EXPECT_EQ(moved, dims);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): documented
    copy = moved;
    EXPECT_EQ(copy, dims);
    Dims assigned{1, 2, 3};
    assigned = std::move(copy);
    EXPECT_EQ(assigned, dims);
    assigned = Dims{4};
    EXPECT_EQ(assigned, Dims{4});
    moved = Dims(std::size_t{12}, 7);
    EXPECT_EQ(moved.size(), 12u);
    EXPECT_EQ(moved[11], 7);
  }
}

TEST(Dims, AreEqualWhereAllLengthsAre) {
  for (const std::size_t count : {0u, 1u, 3u, 8u, 9u}) {
    const Dims dims(count, 5);
    EXPECT_EQ(dims, Dims(count, 5));
    EXPECT_FALSE(dims == Dims(count + 1, 5));
    EXPECT_FALSE(Dims(count + 1, 5) == dims);
    for (std::size_t i = 0; i < count; ++i) {
      Dims other = dims;
      other[i] = 6;
      EXPECT_FALSE(dims == other) << i << " of " << count;
    }
  }
}

TEST(Dims, AreCopiedOutOfTheHeapWhenTheyHaveBecomeFew) {
  Dims dims;
  for (std::int64_t i = 0; i < 9; ++i) dims.push_back(i);
  while (dims.size() > 3) dims.erase(3);
  const Dims copy = dims;
  EXPECT_EQ(copy, (Dims{0, 1, 2}));
  const Dims moved = std::move(dims);
  EXPECT_EQ(moved, (Dims{0, 1, 2}));
}

TEST(Dims, Erases) {
  Dims dims{1, 2, 3};
  dims.erase(1);
  EXPECT_EQ(dims, (Dims{1, 3}));
  dims.erase(1);
  dims.erase(0);
  EXPECT_TRUE(dims.empty());
  EXPECT_EQ(dims.to_string(), "()");
  EXPECT_EQ(Dims{5}.to_string(), "(5,)");
  EXPECT_EQ((Dims{5, -1}).to_string(), "(5, -1)");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(*numel(Dims{}), 1);  // a scalar
  EXPECT_EQ(*numel(Dims{0}), 0);
  EXPECT_EQ(*numel(Dims{3, 0, 5}), 0);
  EXPECT_EQ(*numel(Dims{3, 4, 5}), 60);
  EXPECT_EQ(*numel(Dims{kMax}), kMax);
  EXPECT_EQ(numel(Dims{-1}).code(), Code::kInvalid);
  EXPECT_EQ(numel(Dims{0, -1}).code(), Code::kInvalid);
  EXPECT_EQ(numel(Dims{kMin}).code(), Code::kInvalid);
  EXPECT_EQ(numel(Dims{kMax, 2}).code(), Code::kInvalid);
  EXPECT_EQ(numel(Dims{kMax, 2, 0}).code(), Code::kInvalid);
  EXPECT_EQ(numel(Dims{std::int64_t{1} << 32, std::int64_t{1} << 32}).code(), Code::kInvalid);
  EXPECT_EQ(*numel(Dims(std::size_t{64}, 1)), 1);
  EXPECT_EQ(numel(Dims(std::size_t{65}, 1)).code(), Code::kInvalid);
}

TEST(Shape, CountsBytes) {
  EXPECT_EQ(*byte_count(Dims{3, 4}, 8), 96);
  EXPECT_EQ(*byte_count(Dims{kMax / 4}, 4), kMax / 4 * 4);
  EXPECT_EQ(byte_count(Dims{kMax / 4 + 1}, 4).code(), Code::kInvalid);
}

TEST(Shape, MakesStrides) {
  EXPECT_EQ(c_strides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(f_strides(Dims{2, 3, 4}), (Dims{1, 2, 6}));
  EXPECT_EQ(c_strides(Dims{3, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(c_strides(Dims{}), Dims{});
}

TEST(Shape, KnowsContiguity) {
  EXPECT_TRUE(is_c_contiguous(Dims{}, Dims{}));
  EXPECT_TRUE(is_f_contiguous(Dims{}, Dims{}));
  EXPECT_TRUE(is_c_contiguous(Dims{2, 3}, Dims{3, 1}));
  EXPECT_FALSE(is_f_contiguous(Dims{2, 3}, Dims{3, 1}));
  EXPECT_TRUE(is_f_contiguous(Dims{2, 3}, Dims{1, 2}));
  EXPECT_FALSE(is_c_contiguous(Dims{2, 3}, Dims{4, 1}));
  EXPECT_FALSE(is_c_contiguous(Dims{5}, Dims{-1}));
  EXPECT_FALSE(is_c_contiguous(Dims{5}, Dims{0}));
  EXPECT_TRUE(is_c_contiguous(Dims{5, 1, 2}, Dims{2, -99, 1}));  // the stride of one element does not matter
  EXPECT_TRUE(is_f_contiguous(Dims{1, 5}, Dims{77, 1}));
  EXPECT_TRUE(is_c_contiguous(Dims{5, 0}, Dims{-3, 9}));  // nothing is always in order
  EXPECT_FALSE(is_c_contiguous(Dims{kMax, kMax, 2}, Dims{1, 2, 1}));
}

TEST(Shape, FindsTheBytesThatAreTouched) {
  const auto extent = [](const Dims& shape, const Dims& strides, std::size_t item) {
    const Extent e = *byte_extent(shape, strides, item);
    return std::pair(e.low, e.high);
  };
  using P = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(extent({}, {}, 8), P(0, 8));
  EXPECT_EQ(extent({4}, {1}, 2), P(0, 8));
  EXPECT_EQ(extent({4}, {-1}, 2), P(-6, 2));
  EXPECT_EQ(extent({4, 3}, {-3, 1}, 4), P(-36, 12));
  EXPECT_EQ(extent({4, 3}, {0, 0}, 4), P(0, 4));
  EXPECT_EQ(extent({4, 0}, {-100, 100}, 4), P(0, 0));
  EXPECT_EQ(extent({1}, {kMin}, 4), P(0, 4));
  const Extent bytes = *byte_extent(Dims{3}, Dims{12}, 4, 1);  // a column of a structured array
  EXPECT_EQ(bytes.high, 28);
}

TEST(Shape, RefusesExtentsThatOverflow) {
  EXPECT_EQ(byte_extent(Dims{2}, Dims{kMax}, 8).code(), Code::kInvalid);
  EXPECT_EQ(byte_extent(Dims{2}, Dims{kMin}, 1).code(), Code::kInvalid);  // low - high does not fit
  EXPECT_EQ(byte_extent(Dims{3}, Dims{kMin}, 1).code(), Code::kInvalid);
  EXPECT_EQ(byte_extent(Dims{2, 2}, Dims{kMax / 2, kMax / 2 + 2}, 1).code(), Code::kInvalid);
  EXPECT_EQ(byte_extent(Dims{2, 2}, Dims{kMax / 2 + 1, -kMax / 2 - 1}, 1).code(), Code::kInvalid);
  EXPECT_EQ(byte_extent(Dims{2}, Dims{kMax}, 1).code(), Code::kInvalid);  // no room for the item itself
  EXPECT_EQ(byte_extent(Dims{2}, Dims{1, 1}, 1).code(), Code::kInvalid);
  EXPECT_EQ(byte_extent(Dims{-2}, Dims{1}, 1).code(), Code::kInvalid);
}

TEST(Shape, ChecksThatElementsAreInside) {
  EXPECT_TRUE(check_within(Dims{4}, Dims{1}, 4, 0, 16).ok());
  EXPECT_FALSE(check_within(Dims{4}, Dims{1}, 4, 1, 16).ok());
  EXPECT_TRUE(check_within(Dims{4}, Dims{-1}, 4, 12, 16).ok());
  EXPECT_FALSE(check_within(Dims{4}, Dims{-1}, 4, 11, 16).ok());
  EXPECT_FALSE(check_within(Dims{4}, Dims{-1}, 4, 13, 16).ok());
  EXPECT_TRUE(check_within(Dims{0}, Dims{1}, 4, 16, 16).ok());
  EXPECT_FALSE(check_within(Dims{0}, Dims{1}, 4, 17, 16).ok());
  EXPECT_FALSE(check_within(Dims{}, Dims{}, 4, std::numeric_limits<std::uint64_t>::max(), 16).ok());
  EXPECT_FALSE(check_within(Dims{}, Dims{}, 4, 0, 0).ok());
}

}  // namespace
}  // namespace forklift
