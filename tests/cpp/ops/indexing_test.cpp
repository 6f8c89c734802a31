// Elements by their indices, and tensors rearranged, from C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "forklift/error.h"
#include "forklift/indexing.h"

namespace forklift {
namespace {

using ops::Slice;
using testing::ElementsAre;
using testing::HasSubstr;

Tensor whole(const std::vector<std::int64_t>& values) {
  Tensor made = Tensor::empty({static_cast<std::int64_t>(values.size())}, DType::kInt64);
  for (std::size_t i = 0; i < values.size(); ++i) made.span<std::int64_t>()[i] = values[i];
  return made;
}

std::span<std::int64_t> all(const Tensor& tensor) { return tensor.span<std::int64_t>(); }

TEST(Indexing, ViewsAndCopies) {
  const Tensor x = ops::arange(0, 12).reshape({3, 4});
  const Tensor rows = ops::at(x, {Slice{0, 2}, ops::all_others});
  EXPECT_EQ(rows.shape(), (Dims{2, 4}));
  EXPECT_EQ(rows.storage(), x.storage());
  EXPECT_EQ(ops::at(x, {1, ops::new_axis}).shape(), (Dims{1, 4}));
  EXPECT_THAT(all(ops::at(x, {whole({2, 0}), whole({-1, 1})})), ElementsAre(11, 1));
  EXPECT_THAT(all(ops::at(x, {Slice{}, whole({3})})), ElementsAre(3, 7, 11));
  EXPECT_THAT(all(ops::at(x, {ops::greater(x, 9)})), ElementsAre(10, 11));
  EXPECT_EQ(ops::at(ops::full({2, 3, 4}, 1), {whole({0, 1}), Slice{}, 0}).shape(), (Dims{2, 3}));
}

TEST(Indexing, SetsWhatIsNamed) {
  const Tensor x = ops::arange(0, 6).reshape({2, 3});
  ops::set(x, {ops::greater(x, 3)}, 0);
  ops::set(x, {Slice{}, 0}, whole({7, 8}));
  EXPECT_THAT(all(x), ElementsAre(7, 1, 2, 8, 0, 0));
  ops::set(x, {0, whole({1, 1})}, whole({5, 6}));
  EXPECT_EQ(x.at<std::int64_t>({0, 1}), 6);
  EXPECT_THROW(ops::set(x, {0}, 1.5), Error);
  EXPECT_THROW(ops::set(x.as_readonly(), {whole({0})}, 1), Error);
}

TEST(Indexing, NamesWhatIsOutOfRange) {
  const Tensor x = ops::arange(0, 6).reshape({2, 3});
  for (const auto& [index, text] :
       {std::pair{ops::Index(whole({0, 4})), "index 4 is out of range for axis 1 of length 3"},
        std::pair{ops::Index(-4), "index -4 is out of range for axis 1 of length 3"}}) {
    try {
      ops::at(x, {Slice{}, index});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
  EXPECT_THROW(ops::take(x, whole({2}), 0), Error);
  EXPECT_THROW(ops::take_along_axis(x, whole({2}).reshape({1, 1}), 0), Error);
}

TEST(Indexing, TakesAndRepeats) {
  const Tensor x = ops::arange(0, 4);
  EXPECT_THAT(all(ops::take(x, whole({3, -4}))), ElementsAre(3, 0));
  EXPECT_THAT(all(ops::take_along_axis(x, whole({2, 2}))), ElementsAre(2, 2));
  EXPECT_THAT(all(ops::repeat(x, whole({2, 0, 1, 0}))), ElementsAre(0, 0, 2));
  EXPECT_THAT(all(ops::roll(x, {1})), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(all(ops::tile(ops::arange(0, 2), {2})), ElementsAre(0, 1, 0, 1));
}

TEST(Indexing, TurnsAndSplits) {
  const Tensor x = ops::full({2, 3, 4}, 1);
  EXPECT_EQ(ops::moveaxis(x, {0}, {-1}).shape(), (Dims{3, 4, 2}));
  EXPECT_EQ(ops::matrix_transpose(x).shape(), (Dims{2, 4, 3}));
  EXPECT_EQ(ops::unstack(x, 1).size(), 3U);
  EXPECT_THAT(all(ops::tril(ops::full({2, 2}, 5))), ElementsAre(5, 0, 5, 5));
  EXPECT_THAT(all(ops::eye(2, 3, 1, DType::kInt64)), ElementsAre(0, 1, 0, 0, 0, 1));
  const std::vector<Tensor> lines{ops::arange(0, 2), ops::arange(0, 3)};
  EXPECT_EQ(ops::meshgrid(lines)[0].shape(), (Dims{3, 2}));
  const std::vector<Tensor> two{ops::arange(0, 2).reshape({2, 1}), ops::arange(0, 3)};
  EXPECT_EQ(ops::broadcast_arrays(two)[1].shape(), (Dims{2, 3}));
  EXPECT_EQ(ops::vecdot(ops::arange(0, 3), ops::arange(0, 3)).at<std::int64_t>({}), 5);
  EXPECT_EQ(ops::tensordot(x, x, {1, 2}, {1, 2}).shape(), (Dims{2, 2}));
  EXPECT_TRUE(ops::can_cast(DType::kInt32, DType::kFloat64));
  EXPECT_FALSE(ops::can_cast(DType::kFloat32, DType::kInt64));
}

}  // namespace
}  // namespace forklift
