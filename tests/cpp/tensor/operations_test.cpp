// The tensor room's Results, which the members of Tensor turn into exceptions: the words, and that both say the same.
#include "tensor/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "support/counting.h"
#include "support/status_check.h"
#include "tensor/arena_storage.h"
#include "tensor/storage.h"

namespace forklift::tensor {
namespace {

using test::code_of;
using test::counting;
using testing::HasSubstr;

TEST(TensorResults, WrapAsTheMembersDo) {
  const Result<std::shared_ptr<Storage>> storage = heap_storage(64);
  ASSERT_OK(storage);
  const Result<Tensor> whole = wrap(*storage, DType::kFloat64, {2, 4});
  ASSERT_OK(whole);
  EXPECT_TRUE(whole->same_view(Tensor::wrap(*storage, DType::kFloat64, {2, 4})));
  const Result<Tensor> turned = wrap_strided(*storage, DType::kFloat64, {4}, {-1}, 24, true);
  ASSERT_OK(turned);
  EXPECT_TRUE(turned->same_view(Tensor::wrap_strided(*storage, DType::kFloat64, {4}, {-1}, 24, true)));
  EXPECT_TRUE(turned->readonly());

  EXPECT_CODE(Code::kInvalid, wrap(*storage, DType::kFloat64, {9}));
  EXPECT_CODE(Code::kInvalid, wrap(nullptr, DType::kBool, {1}));
  EXPECT_CODE(Code::kInvalid, wrap_strided(*storage, DType::kFloat64, {4}, {-1}, 16));
  EXPECT_THAT(wrap(*storage, static_cast<DType>(77), {1}).status().what(), HasSubstr("no dtype 77"));
  EXPECT_THAT(wrap(*storage, DType::kFloat64, {1}, 4).status().what(),
              HasSubstr("float64 at an address that is no multiple of 8"));
}

TEST(TensorResults, MemoryThatCannotBe) {
  EXPECT_CODE(Code::kInvalid, heap_storage(SIZE_MAX));
  EXPECT_CODE(Code::kInvalid, borrowed_storage(nullptr, 1));
  int number = 0;
  EXPECT_CODE(Code::kInvalid, borrowed_storage(&number, SIZE_MAX));
  const Result<std::shared_ptr<Storage>> borrowed = borrowed_storage(&number, sizeof number);
  ASSERT_OK(borrowed);
  EXPECT_EQ(static_cast<void*>((*borrowed)->data()), &number);
  EXPECT_EQ((*borrowed)->bytes(), sizeof number);
}

TEST(TensorResults, InTheArena) {
  EXPECT_CODE(Code::kInvalid, in_arena({-3}, DType::kFloat32, false));
  const Result<Tensor> zeros = in_arena({2, 3}, DType::kFloat32, true);
  ASSERT_OK(zeros);
  EXPECT_NE(zeros->storage()->arena_lease(), nullptr);
  EXPECT_TRUE(zeros->same_elements(Tensor::zeros({2, 3}, DType::kFloat32)));
}

TEST(TensorResults, AreTheMembersViews) {
  const Tensor t = counting({3, 4});
  EXPECT_TRUE(select(t, -1, 2)->same_view(t.select(-1, 2)));
  EXPECT_TRUE(narrow(t, 1, 1, 2)->same_view(t.narrow(1, 1, 2)));
  EXPECT_TRUE(slice(t, 0, {}, {}, -2)->same_view(t.slice(0, {}, {}, -2)));
  EXPECT_TRUE(transpose(t, 0, 1)->same_view(t.transpose(0, 1)));
  EXPECT_TRUE(permute(t, Dims{1, 0})->same_view(t.permute({1, 0})));
  EXPECT_TRUE(reshape(t, {2, -1})->same_view(t.reshape({2, 6})));
}

TEST(TensorResults, RefusalsSayWhy) {
  const Tensor t = counting({3, 4});
  EXPECT_CODE(Code::kInvalid, select(t, 2, 0));
  EXPECT_THAT(select(t, 2, 0).status().what(), HasSubstr("no dimension 2 in a tensor of 2"));
  EXPECT_THAT(select(t, 0, 3).status().what(), HasSubstr("no index 3 in dimension 0 of int32(3, 4)"));
  EXPECT_CODE(Code::kInvalid, narrow(t, -3, 0, 1));
  EXPECT_THAT(narrow(t, 0, 1, 3).status().what(), HasSubstr("3 from 1 in dimension 0 of int32(3, 4)"));
  EXPECT_THAT(slice(t, 0, 0, 1, 0).status().what(), HasSubstr("a slice with step 0"));
  EXPECT_CODE(Code::kInvalid, slice(t, 2, 0, 1, 1));
  EXPECT_THAT(transpose(t, 0, 5).status().what(), HasSubstr("no dimension 5"));
  EXPECT_THAT(permute(t, Dims{0}).status().what(), HasSubstr("an order of 1 dimensions for int32(3, 4)"));
  EXPECT_THAT(permute(t, Dims{0, -2}).status().what(), HasSubstr("dimension -2 twice"));
  EXPECT_THAT(reshape(t, {5, -1}).status().what(), HasSubstr("int32(3, 4) reshaped to (5, -1)"));
  EXPECT_THAT(reshape(t.transpose(0, 1), {12}).status().what(),
              HasSubstr("int32(4, 3) with strides (1, 4) is not contiguous: copy it"));
}

TEST(TensorResults, FillElements) {
  const Tensor t = counting({2, 3});
  EXPECT_OK(fill_elements(t.select(1, 1), std::int32_t{7}));
  EXPECT_EQ(t.at<std::int32_t>({0, 1}), 7);
  EXPECT_OK(fill_elements(counting({0, 3}), std::int32_t{7}));
  EXPECT_CODE(Code::kInvalid, fill_elements(t, 1.0F));
  EXPECT_CODE(Code::kInvalid, fill_elements(t.as_readonly(), std::int32_t{7}));
  EXPECT_EQ(t.at<std::int32_t>({1, 0}), 3);
  EXPECT_EQ(t.at<std::int32_t>({1, 1}), 7);
}

TEST(TensorResults, CopyElements) {
  const Tensor into = counting({2, 3});
  const Tensor source = counting({3, 2}).transpose(0, 1);
  EXPECT_OK(copy_elements(into, source));
  EXPECT_TRUE(into.same_elements(source));
  EXPECT_OK(copy_elements(into, into.as_readonly()));
  EXPECT_THAT(copy_elements(into.as_readonly(), source).what(), HasSubstr("int32(2, 3) is read-only"));
  EXPECT_THAT(copy_elements(into, counting({3, 2})).what(), HasSubstr("int32(2, 3) copied from int32(3, 2)"));
  EXPECT_CODE(Code::kInvalid, copy_elements(into, Tensor::zeros({2, 3}, DType::kFloat32)));
}

TEST(TensorResults, CheckAccess) {
  const Tensor t = counting({2, 3});
  const Tensor frozen = t.as_readonly();
  const Tensor turned = t.transpose(0, 1);
  EXPECT_OK(check_access(t, DType::kInt32, true, true));
  EXPECT_OK(check_access(frozen, DType::kInt32, false, true));
  EXPECT_OK(check_access(turned, DType::kInt32, true, false));
  EXPECT_THAT(check_access(t, DType::kUInt32, false, false).what(),
              HasSubstr("int32(2, 3) accessed as uint32"));
  EXPECT_THAT(check_access(frozen, DType::kInt32, true, false).what(), HasSubstr("is read-only"));
  EXPECT_THAT(check_access(turned, DType::kInt32, false, true).what(),
              HasSubstr("int32(3, 2) with strides (1, 3) is not contiguous"));
  EXPECT_EQ(code_of([&] { return turned.span<std::int32_t>(); }), Code::kInvalid);
}

TEST(TensorResults, ElementOffset) {
  const Tensor t = counting({2, 3}).transpose(0, 1);
  EXPECT_EQ(element_offset(t, Dims{2, 1}), 5);
  EXPECT_EQ(element_offset(t, Dims{-3, -1}), 3);
  EXPECT_EQ(element_offset(t, Dims{3, 0}), std::nullopt);
  EXPECT_EQ(element_offset(t, Dims{0, -3}), std::nullopt);
  EXPECT_EQ(element_offset(t, Dims{0}), std::nullopt);
  EXPECT_EQ(element_offset(counting({}), Dims{}), 0);
}

}  // namespace
}  // namespace forklift::tensor
