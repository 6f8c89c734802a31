// Copies and views on a GPU, what a GPU refuses, and its driver's failures.
#include <gmock/gmock.h>

#include "forklift/device.h"
#include "forklift/indexing.h"
#include "forklift/random.h"
#include "forklift/sorting.h"
#include "ops/arrangement.h"
#include "ops/elementwise.h"
#include "ops/gpu_fixture.h"

namespace forklift::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor at(const Tensor& x, const std::vector<ops::Index>& index) { return ops::at(x, index); }

TEST_F(GpuOpsTest, CopiesOfAllItemSizes) {
  for (const DType dtype : all_dtypes()) {
    SCOPED_TRACE(name(dtype));
    const Operands x{sample(dtype, {8, 9, 10}, 1), sample(dtype, {8, 9, 10}, 2)};
    expect_same(x, kExact, [](const Operands& a) { return copied(a[0].transpose(0, 2)); });
    expect_same(x, kExact,
                [](const Operands& a) { return ops::concat(std::vector<Tensor>{a[0], a[1], a[0]}, 1); });
    expect_same(x, kExact,
                [](const Operands& a) { return ops::concat(std::vector<Tensor>{a[0], a[1]}, std::nullopt); });
    expect_same(x, kExact, [](const Operands& a) { return ops::stack(std::vector<Tensor>{a[0], a[1]}, -1); });
    expect_same(x, kExact, [](const Operands& a) { return ops::reshape(a[0].transpose(0, 1), {90, 8}); });
    expect_same(x, kExact, [](const Operands& a) { return ops::flip(a[0], Dims{0, 2}); });
    expect_same(x, kExact, [](const Operands& a) { return ops::roll(a[0], Dims{3, -2}, Dims{0, 1}); });
    expect_same(x, kExact, [](const Operands& a) { return ops::tile(a[0], Dims{2, 1, 3}); });
    expect_same(x, kExact, [](const Operands& a) {
      return copied(ops::broadcast_to(a[0].select(1, 2).select(0, 0), {4, 10}));
    });
  }
  expect_same({sample(DType::kInt16, {5}), sample(DType::kFloat32, {4})}, kExact,
              [](const Operands& a) { return ops::concat(std::vector<Tensor>{a[0], a[1]}, 0); });
}

// Both operands are dense along one dimension, and not the same.
TEST_F(GpuOpsTest, TurnedCopiesGoThroughTiles) {
  for (const DType dtype :
       {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    SCOPED_TRACE(name(dtype));
    for (const Dims& shape : {Dims{70, 33}, Dims{16, 100}, Dims{3, 40, 50}, Dims{2, 20, 3, 65}}) {
      SCOPED_TRACE(shape.to_string());
      const auto last = static_cast<std::int64_t>(shape.size()) - 1;
      const Operands x{sample(dtype, shape)};
      expect_same(x, kExact, [last](const Operands& a) { return copied(a[0].transpose(0, last)); });
      expect_same(x, kExact, [last](const Operands& a) { return copied(a[0].transpose(last - 1, last)); });
      expect_same(x, kExact, [last](const Operands& a) {
        return copied(a[0].transpose(0, last).slice(0, std::nullopt, std::nullopt, -1).slice(last, 1, 60, 2));
      });
      // Into a turned one.
      expect_same({x[0], sample(dtype, shape, 1)}, kExact, [last](const Operands& a) {
        throw_if_failed(ops::assign(a[1].transpose(0, last), a[0].transpose(0, last)));
        return a[1];
      });
    }
  }
}

TEST_F(GpuOpsTest, NumbersToAllElements) {
  for (const DType dtype : all_dtypes()) {
    SCOPED_TRACE(name(dtype));
    for (const int number : {0, 1, 7}) {
      expect_same({sample(dtype, {33, 10})}, kExact,
                  [number](const Operands& x) { return ops::full_like(x[0], number); });
      expect_same({sample(dtype, {33, 10})}, kExact, [number](const Operands& x) {
        throw_if_failed(ops::assign(x[0].slice(1, 1, 9, 3), number));
        return x[0];
      });
    }
  }
  set_device_target("GPU");
  for (const Tensor& made : {ops::zeros({3, 4}), ops::ones({5}, DType::kInt16), ops::arange(0, 20, 3),
                             ops::linspace(0, 1, 5), ops::eye(4)})
    EXPECT_EQ(made.device(), "GPU");
  const Tensor counted = ops::arange(0, 20, 3).to("CPU");
  set_device_target("CPU");
  expect_equal(ops::arange(0, 20, 3), counted, kExact);
}

// Views compute nothing; an index of numbers and slices is one, and can be set.
TEST_F(GpuOpsTest, Views) {
  const Tensor x = sample(DType::kFloat32, {4, 6}).to("GPU");
  const long before = fake().calls();
  const Tensor part = at(x, {ops::Index(1), ops::Index(ops::Slice{.start = 1, .stop = 5})});
  EXPECT_EQ(part.shape(), (Dims{4}));
  EXPECT_EQ(ops::reshape(x, {6, 4}).shape(), (Dims{6, 4}));
  EXPECT_EQ(ops::expand_dims(x, 1).shape(), (Dims{4, 1, 6}));
  EXPECT_EQ(fake().calls(), before) << "no call of the driver";
  expect_same({sample(DType::kFloat32, {4, 6}), sample(DType::kFloat32, {3})}, kExact, [](const Operands& a) {
    const std::vector<ops::Index> places{ops::Slice{}, ops::Slice{.step = 2}};
    ops::set(a[0], places, a[1]);
    return a[0];
  });
}

TEST_F(GpuOpsTest, WhatAGpuDoesNotCompute) {
  const Tensor x = finite(DType::kFloat32, {4, 6}).to("GPU");
  const Tensor indices = Tensor::zeros({2}, DType::kInt64).to("GPU");
  const Tensor line = finite(DType::kFloat32, {5}).to("GPU");
  const struct {
    const char* name;
    std::function<void()> compute;
  } all[] = {{"sort", [&] { ops::sort(x); }},
             {"argsort", [&] { ops::argsort(x); }},
             {"searchsorted", [&] { ops::searchsorted(line, x); }},
             {"isin", [&] { ops::isin(x, line); }},
             {"unique_values", [&] { ops::unique_values(x); }},
             {"unique_all", [&] { ops::unique_all(x); }},
             {"nonzero", [&] { ops::nonzero(x); }},
             {"take", [&] { ops::take(x, indices, 0); }},
             {"take_along_axis", [&] { ops::take_along_axis(x, x, 0); }},
             {"index", [&] { at(x, {ops::Index(indices)}); }},
             {"index", [&] { at(x, {ops::Index(Tensor::zeros({2}, DType::kInt64))}); }},
             {"index", [&] { at(x, {ops::Index(ops::greater(x, 0))}); }},
             {"cumulative_sum", [&] { ops::cumulative_sum(line); }},
             {"cumulative_prod", [&] { ops::cumulative_prod(line); }},
             {"repeat", [&] { ops::repeat(x, 2); }},
             {"tril", [&] { ops::tril(x); }},
             {"triu", [&] { ops::triu(x); }}};
  for (const auto& each : all) {
    SCOPED_TRACE(each.name);
    const long before = fake().calls();
    try {
      each.compute();
      ADD_FAILURE() << "it was computed";
    } catch (const Error& failure) {
      EXPECT_EQ(failure.status().code(), Code::kUnsupported) << failure.what();
      EXPECT_THAT(failure.what(), AllOf(HasSubstr(std::string(each.name) + "("), HasSubstr("to(\"CPU\")")));
    }
    if (std::string_view(each.name) != "index") {
      EXPECT_EQ(fake().calls(), before) << "something was computed";
    }
  }
}

TEST_F(GpuOpsTest, FailuresOfTheDriver) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  constexpr int kOutOfMemory = 2;
  constexpr int kUnsupportedPtx = 222;
  const Tensor x = finite(DType::kFloat32, {4, 6}).to("GPU");
  fake().fail_function("cuModuleLoadData", 1, kUnsupportedPtx);
  const Result<Tensor> old = ops::unary(kernels::UnaryOp::kExp, x, {});
  EXPECT_EQ(old.status().code(), Code::kUnsupported);
  EXPECT_THAT(std::string(old.status().what()),
              AllOf(HasSubstr("exp(float32(4, 6))"), HasSubstr("cuModuleLoadData"), HasSubstr("driver")));
  fake().fail_function("cuLaunchKernel", 1, kOutOfMemory);
  const Result<Tensor> failed = ops::unary(kernels::UnaryOp::kExp, x, {});
  EXPECT_EQ(failed.status().code(), Code::kNoSpace);
  EXPECT_THAT(std::string(failed.status().what()),
              AllOf(HasSubstr("exp(float32(4, 6))"), HasSubstr("cuLaunchKernel")));
  // Nothing of it stays.
  EXPECT_TRUE(ops::unary(kernels::UnaryOp::kExp, x, {}).ok());
}

// A module is loaded when it is first needed, and once.
TEST_F(GpuOpsTest, ModulesAreLoadedOnce) {
  if (skipped_on_real_cuda("it counts modules")) return;
  const Tensor x = finite(DType::kFloat32, {4, 6}).to("GPU");
  EXPECT_EQ(fake().live().modules, 0);
  for (int i = 0; i < 3; ++i) ops::add(x, x);
  EXPECT_EQ(fake().live().modules, 1);
  for (int i = 0; i < 3; ++i) ops::sum(x);
  EXPECT_EQ(fake().live().modules, 2);
}

}  // namespace
}  // namespace forklift::test
