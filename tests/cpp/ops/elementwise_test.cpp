// Operations element by element from C++: values, dtypes, shapes, `out`, errors. Values at large are compared with
// NumPy's in tests/python/ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "forklift/error.h"
#include "forklift/ops.h"
#include "forklift/runtime.h"

namespace forklift {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
Tensor tensor_of(std::vector<T> values) {
  Tensor made = Tensor::zeros({static_cast<std::int64_t>(values.size())}, dtype_of<T>());
  std::copy(values.begin(), values.end(), made.span<T>().begin());
  return made;
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const std::span<const T> span = tensor.span<const T>();
  return {span.begin(), span.end()};
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), Code::kInvalid);
    return error.what();
  }
  return "no error";
}

class OpsTest : public testing::Test {
 protected:
  void TearDown() override { runtime::set_threads(1); }
};

TEST_F(OpsTest, AFewElementsOfATensorThatIsBeingComputed) {
  runtime::set_threads(2);
  constexpr std::int64_t kMany = 1 << 20;
  const Tensor ones = ops::ones({kMany}, DType::kFloat32);
  for (int i = 0; i < 20; ++i) {
    Tensor sum = ops::add(ones, ones);
    for (int k = 0; k < 8; ++k) sum = ops::add(sum, ones);  // still under way when its end is used
    const Tensor end = sum.slice(0, kMany - 3, kMany);
    const Tensor result = end * 2;
    ops::add(end, 1, ops::Out(end));
    EXPECT_THAT(values<float>(result), ElementsAre(20, 20, 20));
    EXPECT_THAT(values<float>(end), ElementsAre(11, 11, 11));
  }
}

TEST_F(OpsTest, AFewElementsThatBroadcast) {
  const Tensor row = tensor_of<float>({1, 2, 4});
  EXPECT_THAT(values<float>(row + tensor_of<float>({10})), ElementsAre(11, 12, 14));
  EXPECT_THAT(values<float>(tensor_of<float>({10}) - row), ElementsAre(9, 8, 6));
  const Tensor column = row.reshape({3, 1});
  EXPECT_EQ((column + row).shape(), (Dims{3, 3}));
  EXPECT_THAT(values<float>((column + row).reshape({9})), ElementsAre(2, 3, 5, 3, 4, 6, 5, 6, 8));
  EXPECT_EQ((row.reshape({1, 3}) * row).shape(), (Dims{1, 3}));
}

TEST_F(OpsTest, NumbersTakeTheTensorsDtype) {
  const Tensor x = tensor_of<float>({1, 2, 4});
  EXPECT_THAT(values<float>(x + 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(values<float>(1 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(values<float>(2.0 / x), ElementsAre(2, 1, 0.5));
  EXPECT_EQ((x * std::complex<double>(0, 1)).dtype(), DType::kComplex64);
  EXPECT_EQ((tensor_of<std::int8_t>({1}) + 1).dtype(), DType::kInt8);
  EXPECT_EQ((tensor_of<std::int32_t>({1}) / 2).dtype(), DType::kFloat64);
  EXPECT_THAT(message_of([] { tensor_of<std::int8_t>({1}) + 300; }),
              HasSubstr("add(int8(1,), a number): the number does"));
}

TEST_F(OpsTest, Promotion) {
  const auto both = [](DType a, DType b) {
    return ops::result_type(Tensor::zeros({1}, a), Tensor::zeros({1}, b));
  };
  EXPECT_EQ(both(DType::kInt32, DType::kFloat32), DType::kFloat64);
  EXPECT_EQ(both(DType::kInt8, DType::kUInt8), DType::kInt16);
  EXPECT_EQ(both(DType::kInt64, DType::kUInt64), DType::kFloat64);
  EXPECT_EQ(both(DType::kFloat16, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(both(DType::kFloat64, DType::kComplex64), DType::kComplex128);
  EXPECT_EQ(both(DType::kBool, DType::kUInt16), DType::kUInt16);
}

TEST_F(OpsTest, IntegersWrapAndDivideAsPythonDoes) {
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  const Tensor x = tensor_of<std::int32_t>({7, -7, kLeast, 5});
  EXPECT_THAT(values<std::int32_t>(ops::floor_divide(x, tensor_of<std::int32_t>({2, 2, -1, 0}))),
              ElementsAre(3, -4, kLeast, 0));
  EXPECT_THAT(values<std::int32_t>(ops::remainder(x, tensor_of<std::int32_t>({-2, 2, -1, 0}))),
              ElementsAre(-1, 1, 0, 0));
  EXPECT_THAT(values<std::int32_t>(ops::abs(x)), ElementsAre(7, 7, kLeast, 5));
  EXPECT_THAT(message_of([&] { ops::pow(x, tensor_of<std::int32_t>({1, 1, -1, 1})); }),
              HasSubstr("integers to negative integer powers"));
}

TEST_F(OpsTest, NumbersAloneHaveTheDefaultDtypeOfTheWidestKind) {
  EXPECT_EQ(ops::result_type(1, 2.5), DType::kFloat32);
  EXPECT_EQ(ops::result_type(2.5, true), DType::kFloat32);
  EXPECT_EQ(ops::result_type(std::complex<double>(0, 1), 2), DType::kComplex64);
  EXPECT_EQ(ops::result_type(1, true), DType::kInt64);
  EXPECT_EQ(ops::arange(0, 1.5).dtype(), DType::kFloat32);
}

TEST_F(OpsTest, ComplexFunctionsNearZeroAndAtInfinity) {
  using Complex = std::complex<double>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor small = tensor_of<Complex>({{1e-12, 2e-12}});
  // The first terms of the series: z + z^2 / 2 and z - z^2 / 2.
  EXPECT_DOUBLE_EQ(values<Complex>(ops::expm1(small))[0].real(), 1e-12 - 1.5e-24);
  EXPECT_DOUBLE_EQ(values<Complex>(ops::log1p(small))[0].imag(), 2e-12 - 2e-24);
  const Tensor x = tensor_of<Complex>({{kInfinity, 3}, {-kInfinity, 2}});
  EXPECT_THAT(values<Complex>(ops::tanh(x)), ElementsAre(Complex(1, 0), Complex(-1, 0)));
  EXPECT_FALSE(std::signbit(values<Complex>(ops::tanh(x))[0].imag()));
  EXPECT_THAT(values<Complex>(ops::round(tensor_of<Complex>({{0.5, 1.5}}))), ElementsAre(Complex(0, 2)));
}

TEST_F(OpsTest, BroadcastsAndSaysWhatDoesNot) {
  const Tensor column = tensor_of<float>({1, 2, 3}).reshape({3, 1});
  const Tensor row = tensor_of<float>({10, 20});
  const Tensor sum = column + row;
  EXPECT_EQ(sum.shape(), (Dims{3, 2}));
  EXPECT_THAT(values<float>(sum), ElementsAre(11, 21, 12, 22, 13, 23));
  EXPECT_THAT(message_of([&] { tensor_of<float>({1, 2}) + tensor_of<float>({1, 2, 3}); }),
              HasSubstr("add(float32(2,), float32(3,)): shapes (2,) (3,) do not broadcast"));
}

TEST_F(OpsTest, OutMayBeAnOperandOrOverlapIt) {
  Tensor x = tensor_of<float>({1, 2, 3, 4});
  x += 1;
  EXPECT_THAT(values<float>(x), ElementsAre(2, 3, 4, 5));
  // Shifted by one: each element must be read before it is written.
  ops::add(x.narrow(0, 0, 3), 0, x.narrow(0, 1, 3));
  EXPECT_THAT(values<float>(x), ElementsAre(2, 2, 3, 4));
  ops::positive(x.slice(0, std::nullopt, std::nullopt, -1), x);
  EXPECT_THAT(values<float>(x), ElementsAre(4, 3, 2, 2));
  EXPECT_THAT(message_of([&] { ops::add(x, 1, x.as_readonly()); }), HasSubstr("is read-only"));
  EXPECT_THAT(message_of([&] { ops::add(x, 1, Tensor::zeros({3}, DType::kFloat32)); }),
              HasSubstr("has not the result's shape, (4,)"));
  EXPECT_THAT(message_of([&] { ops::add(x, 1, Tensor::zeros({4}, DType::kInt32)); }),
              HasSubstr("cannot hold a result of float32"));
}

// Few elements of tensors that are alike are computed at once; these are alike but for one thing.
TEST_F(OpsTest, AddsTensorsThatAreNearlyAlike) {
  const Tensor many = Tensor::zeros({100}, DType::kFloat32);
  for (std::int64_t i = 0; i < 100; ++i) many.at<float>({i}) = static_cast<float>(i);
  ops::add(many.narrow(0, 0, 99), many.narrow(0, 0, 99), many.narrow(0, 1, 99));  // shifted by one
  for (std::int64_t i = 1; i < 100; ++i) EXPECT_EQ(many.at<float>({i}), static_cast<float>(2 * (i - 1)));
  const Tensor x = tensor_of<float>({1, 2, 4, 6, 8});
  const Tensor front = x.narrow(0, 0, 4);
  ops::add(front, x.narrow(0, 1, 4), front);  // one operand is the result's memory, the other overlaps it
  EXPECT_THAT(values<float>(x), ElementsAre(3, 6, 10, 14, 8));
  ops::add(front, front, front);
  EXPECT_THAT(values<float>(x), ElementsAre(6, 12, 20, 28, 8));
  EXPECT_THAT(values<float>(front + front.slice(0, std::nullopt, std::nullopt, -1)),
              ElementsAre(34, 32, 32, 34));
  const Tensor wide = Tensor::zeros({4}, DType::kFloat64);
  ops::add(front, front, wide);
  EXPECT_THAT(values<double>(wide), ElementsAre(12, 24, 40, 56));
  EXPECT_THAT(values<double>(wide + front), ElementsAre(18, 36, 60, 84));
  EXPECT_EQ((Tensor::zeros({0}, DType::kFloat32) + Tensor::zeros({0}, DType::kFloat32)).numel(), 0);
  EXPECT_THAT(message_of([&] { front.reshape({2, 2}) + front; }), HasSubstr("do not broadcast"));
  EXPECT_THAT(message_of([&] { ops::add(front, front, front.as_readonly()); }), HasSubstr("is read-only"));
  EXPECT_THAT(message_of([&] { ops::add(front, front, x); }), HasSubstr("has not the result's shape, (4,)"));
  EXPECT_THAT(message_of([&] { ops::pow(tensor_of<int>({2}), tensor_of<int>({-1})); }),
              HasSubstr("negative"));
}

TEST_F(OpsTest, RefusesWhatNoDtypeHas) {
  EXPECT_THAT(message_of([] { ops::bitwise_and(tensor_of<float>({1}), 1); }),
              HasSubstr("no such operation on float32"));
  EXPECT_THAT(message_of([] { ops::subtract(tensor_of<bool>({true}), tensor_of<bool>({true})); }),
              HasSubstr("no such operation on bool"));
  EXPECT_THAT(message_of([] { ops::sum(tensor_of<float>({1}), {.axes = Dims{1}}); }),
              HasSubstr("sum(float32(1,)): axis 1 is out of range for 1 dimensions"));
}

// Large results come later; nobody can tell but by the time.
TEST_F(OpsTest, ALongChainHasItsValue) {
  runtime::set_threads(3);
  Tensor x = Tensor::zeros({300'000}, DType::kFloat32);
  for (int i = 0; i < 200; ++i) x = x + 1;
  const Tensor half = ops::sum(x) / 2;
  EXPECT_EQ(half.at<float>({}), 30'000'000.0F);
  EXPECT_EQ(x.at<float>({299'999}), 200.0F);
}

// Whoever holds the address sees each operation complete when it returns.
TEST_F(OpsTest, OperationsOnMemoryThatIsSeenAreComplete) {
  runtime::set_threads(3);
  Tensor x = Tensor::zeros({1'000'000}, DType::kFloat32);
  const float* const last = x.data<float>() + 999'999;
  for (int i = 1; i <= 20; ++i) {
    x += 1;
    EXPECT_EQ(*last, static_cast<float>(i));
  }
}

TEST_F(OpsTest, AFailureWaitsInTheResult) {
  runtime::set_threads(3);
  Tensor exponents = ops::astype(Tensor::zeros({1'000'000}, DType::kInt32), DType::kInt32);
  exponents = exponents - 1;
  const Tensor failed = ops::pow(ops::astype(exponents, DType::kInt32), exponents);
  const Tensor from_it = failed + 1;
  EXPECT_THAT(message_of([&] { static_cast<void>(failed.data<std::int32_t>()); }),
              HasSubstr("negative integer powers"));
  EXPECT_THAT(message_of([&] { static_cast<void>(from_it.at<std::int32_t>({3})); }),
              HasSubstr("negative integer powers"));
  EXPECT_THAT(message_of([&] { static_cast<void>(failed + failed); }), HasSubstr("negative integer powers"));
  EXPECT_EQ(exponents.at<std::int32_t>({5}), -1);
}

}  // namespace
}  // namespace forklift
