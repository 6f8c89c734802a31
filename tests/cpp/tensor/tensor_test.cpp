#include "forklift/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "forklift/error.h"
#include "support/counting.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using test::code_of;
using test::counting;

std::vector<std::int32_t> elements(const Tensor& tensor) {
  Tensor dense = Tensor::wrap(Storage::heap(tensor.nbytes()), tensor.dtype(), tensor.shape());
  dense.copy_from(tensor);
  const std::span<std::int32_t> all = dense.span<std::int32_t>();
  return {all.begin(), all.end()};
}

using Ints = std::vector<std::int32_t>;

TEST(Tensor, DefaultAndMovedFromAreEmpty) {
  Tensor tensor;
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_EQ(tensor.shape(), Dims{0});
  EXPECT_EQ(tensor.raw(), nullptr);
  EXPECT_TRUE(tensor.is_contiguous());
  tensor.fill(1.0f);
  EXPECT_TRUE(tensor.span<float>().empty());
  tensor.copy_from(Tensor());

  Tensor full = counting({2, 3});
  Tensor taken = std::move(full);
  EXPECT_EQ(taken.numel(), 6);
  EXPECT_EQ(full.numel(), 0);  // NOLINT(bugprone-use-after-move): documented
  EXPECT_EQ(full.storage(), nullptr);
  full = taken;
  EXPECT_TRUE(full.same_view(taken));
  taken = Tensor();
  EXPECT_EQ(full.storage().use_count(), 1);
}

TEST(Tensor, WrapChecksEverything) {
  auto storage = Storage::heap(64);
  EXPECT_NO_THROW((void)Tensor::wrap(storage, DType::kFloat64, {8}));
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, DType::kFloat64, {9}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, DType::kFloat64, {8}, 8); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, DType::kFloat64, {1}, 4); }),
            Code::kInvalid);  // misaligned
  EXPECT_NO_THROW((void)Tensor::wrap(storage, DType::kComplex64, {1}, 4));
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, DType::kFloat64, {-1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, static_cast<DType>(0), {1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, static_cast<DType>(77), {1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Tensor::wrap(nullptr, DType::kBool, {1}); }), Code::kInvalid);
  EXPECT_NO_THROW((void)Tensor::wrap(nullptr, DType::kBool, {0, 3}));
  EXPECT_EQ(code_of([&] { return Tensor::wrap(storage, DType::kUInt8, Dims(std::size_t{65}, 1)); }),
            Code::kInvalid);
  EXPECT_NO_THROW((void)Tensor::wrap(storage, DType::kUInt8, Dims(std::size_t{64}, 1)));
  EXPECT_EQ(code_of([&] { return Tensor::wrap_strided(storage, DType::kInt32, {4}, {-1}, 8); }),
            Code::kInvalid);
  EXPECT_NO_THROW((void)Tensor::wrap_strided(storage, DType::kInt32, {4}, {-1}, 12));
  EXPECT_EQ(code_of([&] { return Tensor::wrap_strided(storage, DType::kInt32, {4}, {}, 0); }),
            Code::kInvalid);
  // Strides of nothing are not carried on.
  EXPECT_EQ(Tensor::wrap_strided(storage, DType::kInt32, {0, 4}, {INT64_MAX, INT64_MIN}, 0).strides(),
            (Dims{4, 1}));
}

TEST(Storage, RefusesWhatCannotBe) {
  EXPECT_EQ(code_of([&] { return Storage::borrow(nullptr, 1); }), Code::kInvalid);
  EXPECT_NO_THROW((void)Storage::borrow(nullptr, 0));
  int x = 0;
  EXPECT_EQ(code_of([&] { return Storage::borrow(&x, SIZE_MAX); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return Storage::heap(SIZE_MAX); }), Code::kInvalid);
  EXPECT_NO_THROW((void)Storage::heap(0));
  EXPECT_EQ(Storage::heap(10)->arena_lease(), nullptr);
}

TEST(Storage, KeepsItsOwnerUntilTheLastTensorIsGone) {
  auto owner = std::make_shared<std::vector<float>>(10, 1.0f);
  std::weak_ptr<std::vector<float>> watch = owner;
  float* memory = owner->data();
  Tensor row;
  {
    Tensor all = Tensor::wrap(Storage::borrow(memory, 40, std::move(owner)), DType::kFloat32, {2, 5});
    row = all.select(0, 1);
  }
  ASSERT_FALSE(watch.expired());
  EXPECT_EQ(row.data<float>(), memory + 5);
  row = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, TypedAccess) {
  Tensor t = counting({2, 3});
  EXPECT_EQ(static_cast<void*>(t.data<std::int32_t>()), t.raw());
  EXPECT_EQ(t.data_if<std::int32_t>(), t.data<std::int32_t>());
  EXPECT_EQ(t.data_if<const std::int32_t>(), t.data<std::int32_t>());
  EXPECT_EQ(t.data_if<float>(), nullptr);
  EXPECT_EQ(t.data_if<std::uint32_t>(), nullptr);
  EXPECT_EQ(code_of([&] { return t.data<float>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.data<std::uint32_t>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.span<float>(); }), Code::kInvalid);
  EXPECT_EQ(t.at<std::int32_t>({1, 2}), 5);
  EXPECT_EQ(t.at<std::int32_t>({-1, -3}), 3);
  t.at<std::int32_t>({1, 2}) = 50;
  EXPECT_EQ(t.data<std::int32_t>()[5], 50);
  EXPECT_EQ(code_of([&] { return t.at<std::int32_t>({2, 0}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.at<std::int32_t>({0, -4}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.at<std::int32_t>({0}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.at<float>({0, 0}); }), Code::kInvalid);

  const Tensor frozen = t.as_readonly();
  EXPECT_TRUE(frozen.readonly());
  EXPECT_FALSE(t.readonly());
  EXPECT_EQ(frozen.data_if<std::int32_t>(), nullptr);
  EXPECT_EQ(frozen.data_if<const std::int32_t>(), t.data<std::int32_t>());
  EXPECT_EQ(frozen.data<const std::int32_t>(), t.data<std::int32_t>());
  EXPECT_EQ(code_of([&] { return frozen.data<std::int32_t>(); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return frozen.span<std::int32_t>(); }), Code::kInvalid);
  EXPECT_EQ(frozen.span<const std::int32_t>()[4], 4);
  EXPECT_TRUE(frozen.select(0, 0).readonly());
}

TEST(Tensor, Scalars) {
  Tensor t = counting({});
  EXPECT_EQ(t.ndim(), 0u);
  EXPECT_EQ(t.numel(), 1);
  EXPECT_EQ(t.nbytes(), 4u);
  t.fill(std::int32_t{7});
  EXPECT_EQ(t.at<std::int32_t>({}), 7);
  EXPECT_EQ(code_of([&] { return t.select(0, 0); }), Code::kInvalid);
  EXPECT_EQ(t.reshape({1, 1}).shape(), (Dims{1, 1}));
  EXPECT_EQ(t.reshape({1, -1}).reshape({}).ndim(), 0u);
}

TEST(Tensor, SelectAndNarrow) {
  Tensor t = counting({3, 4});
  EXPECT_EQ(elements(t.select(0, 1)), (Ints{4, 5, 6, 7}));
  EXPECT_EQ(elements(t.select(-1, -1)), (Ints{3, 7, 11}));
  EXPECT_EQ(elements(t.narrow(1, 1, 2)), (Ints{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(elements(t.narrow(0, -1, 1)), (Ints{8, 9, 10, 11}));
  EXPECT_EQ(t.narrow(0, 3, 0).numel(), 0);
  EXPECT_FALSE(t.narrow(1, 1, 2).is_contiguous());
  EXPECT_EQ(code_of([&] { return t.narrow(1, 1, 2).span<std::int32_t>(); }), Code::kInvalid);
  using Pair = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [dim, index] : {Pair{2, 0}, {-3, 0}, {0, 3}, {0, -4}, {INT64_MIN, 0}}) {
    EXPECT_EQ(code_of([&, d = dim, i = index] { return t.select(d, i); }), Code::kInvalid)
        << dim << ' ' << index;
  }
  for (const auto& [start, length] : {Pair{0, 4}, {4, 0}, {-4, 1}, {1, -1}, {1, INT64_MAX}, {INT64_MIN, 1}}) {
    EXPECT_EQ(code_of([&, s = start, l = length] { return t.narrow(0, s, l); }), Code::kInvalid)
        << start << ' ' << length;
  }
}

TEST(Tensor, SliceIsPythons) {
  Tensor t = counting({10});
  const std::optional<std::int64_t> none;
  EXPECT_EQ(elements(t.slice(0, 2, 5)), (Ints{2, 3, 4}));
  EXPECT_EQ(elements(t.slice(0, none, none, 4)), (Ints{0, 4, 8}));
  EXPECT_EQ(elements(t.slice(0, none, none, -3)), (Ints{9, 6, 3, 0}));
  EXPECT_EQ(elements(t.slice(0, 7, 2, -2)), (Ints{7, 5, 3}));
  EXPECT_EQ(elements(t.slice(0, -3, none)), (Ints{7, 8, 9}));
  EXPECT_EQ(elements(t.slice(0, -100, 2)), (Ints{0, 1}));
  EXPECT_EQ(elements(t.slice(0, 8, 100)), (Ints{8, 9}));
  EXPECT_EQ(elements(t.slice(0, 100, none, -5)), (Ints{9, 4}));
  EXPECT_EQ(elements(t.slice(0, 3, -100, -1)), (Ints{3, 2, 1, 0}));
  EXPECT_EQ(t.slice(0, 5, 2).numel(), 0);
  EXPECT_EQ(t.slice(0, 20, 30).numel(), 0);
  EXPECT_EQ(t.slice(0, 2, 5, -1).numel(), 0);
  EXPECT_EQ(elements(t.slice(0, 3, none, INT64_MAX)), (Ints{3}));
  EXPECT_EQ(elements(t.slice(0, 3, none, INT64_MIN)), (Ints{3}));
  EXPECT_EQ(code_of([&] { return t.slice(0, 0, 1, 0); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.slice(1, 0, 1); }), Code::kInvalid);
  // Of a view that runs backwards already.
  EXPECT_EQ(elements(t.slice(0, none, none, -1).slice(0, 1, none, 3)), (Ints{8, 5, 2}));
  EXPECT_EQ(counting({0}).slice(0, none, none, -1).numel(), 0);
}

TEST(Tensor, TransposePermuteReshape) {
  Tensor t = counting({2, 3, 4});
  EXPECT_EQ(t.transpose(0, -1).shape(), (Dims{4, 3, 2}));
  EXPECT_EQ(t.transpose(0, 2).at<std::int32_t>({3, 2, 1}), 23);
  EXPECT_TRUE(t.permute({2, 1, 0}).is_contiguous(Order::kF));
  EXPECT_TRUE(t.permute({1, -3, 2}).same_view(t.transpose(0, 1)));
  EXPECT_EQ(code_of([&] { return t.permute({0, 1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.permute({0, 1, 1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.permute({0, -3, 1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.permute({0, 1, 3}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.transpose(0, 3); }), Code::kInvalid);

  EXPECT_EQ(t.reshape({6, -1}).shape(), (Dims{6, 4}));
  EXPECT_EQ(t.reshape({24}).data<std::int32_t>(), t.data<std::int32_t>());
  EXPECT_EQ(code_of([&] { return t.reshape({5, -1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.reshape({-1, -1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.reshape({0, -1}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.reshape({25}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.reshape({-24}); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { return t.transpose(0, 1).reshape({24}); }), Code::kInvalid);
  EXPECT_EQ(counting({0, 3}).reshape({3, -1, 1}).shape(), (Dims{3, 0, 1}));
}

TEST(Tensor, FillAndCopy) {
  Tensor t = counting({4, 5});
  EXPECT_EQ(code_of([&] { t.fill(1.0f); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { t.as_readonly().fill(std::int32_t{1}); }), Code::kInvalid);
  t.narrow(1, 1, 2).fill(std::int32_t{-1});
  EXPECT_EQ(elements(t.select(0, 2)), (Ints{10, -1, -1, 13, 14}));
  EXPECT_EQ(code_of([&] { t.as_readonly().fill_zero(); }), Code::kInvalid);
  t.fill_zero();
  EXPECT_EQ(elements(t.select(0, 2)), (Ints{0, 0, 0, 0, 0}));

  t.copy_from(counting({5, 4}).transpose(0, 1));
  EXPECT_EQ(elements(t.select(0, 1)), (Ints{1, 5, 9, 13, 17}));
  EXPECT_EQ(code_of([&] { t.copy_from(counting({5, 4})); }), Code::kInvalid);
  const Tensor floats = Tensor::wrap(Storage::heap(80), DType::kFloat32, {4, 5});
  EXPECT_EQ(code_of([&] { t.copy_from(floats); }), Code::kInvalid);
  EXPECT_EQ(code_of([&] { t.as_readonly().copy_from(counting({4, 5})); }), Code::kInvalid);
  t.copy_from(t.as_readonly());
}

TEST(Tensor, CopiesOntoItself) {
  Tensor t = counting({8});
  t.narrow(0, 1, 7).copy_from(t.narrow(0, 0, 7));
  EXPECT_EQ(elements(t), (Ints{0, 0, 1, 2, 3, 4, 5, 6}));
  Tensor square = counting({3, 3});
  square.copy_from(square.transpose(0, 1));
  EXPECT_EQ(elements(square), (Ints{0, 3, 6, 1, 4, 7, 2, 5, 8}));
}

TEST(Tensor, Comparisons) {
  Tensor a = counting({2, 3});
  Tensor b = counting({2, 3});
  EXPECT_TRUE(a.same_layout(b));
  EXPECT_FALSE(a.same_view(b));
  EXPECT_TRUE(a.same_view(a.narrow(0, 0, 2)));
  EXPECT_FALSE(a.same_view(a.as_readonly()));
  EXPECT_TRUE(a.same_elements(b));
  EXPECT_TRUE(a.transpose(0, 1).same_elements(b.transpose(0, 1)));
  EXPECT_FALSE(a.same_elements(b.transpose(0, 1)));
  EXPECT_FALSE(a.same_elements(b.reshape({6})));
  b.at<std::int32_t>({1, 1}) = -1;
  EXPECT_FALSE(a.same_elements(b));
  EXPECT_EQ(a.to_string(), "int32(2, 3)");
}

TEST(Tensor, SixtyFourDimensions) {
  Dims shape(std::size_t{64}, 1);
  shape[5] = 3;
  shape[63] = 2;
  Tensor t = counting(shape);
  EXPECT_EQ(elements(t.transpose(5, 63)), (Ints{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(t.select(5, 2).ndim(), 63u);
  EXPECT_EQ(t.reshape({3, 2}).shape(), (Dims{3, 2}));
}

TEST(Tensor, WhatIsNotThereIsAnErrorThatSaysSo) {
  EXPECT_THROW((void)Tensor::zeros({-3}, DType::kFloat32), Error);
  EXPECT_THROW((void)Tensor::empty({-3}, DType::kFloat32), Error);
  const Tensor numbers = Tensor::wrap(Storage::heap(8), DType::kFloat32, {2});
  EXPECT_EQ(numbers.data_if<double>(), nullptr);
  try {
    numbers.at<double>({0}) = 1;
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("float32(2,) accessed as float64"));
  }
  EXPECT_THROW((void)numbers.at<float>({2}), Error);
  EXPECT_THROW((void)numbers.at<float>({0, 0}), Error);
  EXPECT_THROW((void)numbers.as_readonly().at<float>({0}), Error);
  EXPECT_NO_THROW((void)numbers.at<const float>({1}));
}

}  // namespace
}  // namespace forklift
