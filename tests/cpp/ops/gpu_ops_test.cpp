// Elementwise operations on a GPU: each with each dtype, and operands that lie in any way.
#include <gmock/gmock.h>

#include "ops/elementwise.h"
#include "ops/gpu_fixture.h"

namespace forklift::test {
namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;
using testing::HasSubstr;

bool is_complex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

// What the CPU computes by functions of its vector library.
bool is_function(UnaryOp op) { return op >= UnaryOp::kExp && op <= UnaryOp::kErf; }
bool is_function(BinaryOp op) {
  return op == BinaryOp::kPow || op == BinaryOp::kAtan2 || op == BinaryOp::kHypot ||
         op == BinaryOp::kLogaddexp;
}
// By the absolute value of a complex number: CUDA's hypot differs from the C library's in the last places.
bool is_by_modulus(UnaryOp op, DType dtype) {
  return (op == UnaryOp::kAbs || op == UnaryOp::kSign) && is_complex(dtype);
}
// With which the CPU's compiler multiplies and adds at once.
double product_error(BinaryOp op, DType dtype) {
  return (op == BinaryOp::kMultiply || op == BinaryOp::kDivide) && is_complex(dtype) ? function_error(dtype)
                                                                                     : kExact;
}

TEST_F(GpuOpsTest, UnaryOperationsOfAllDtypes) {
  for (std::size_t i = 0; i < kernels::kUnaryNames.size(); ++i) {
    const auto op = static_cast<UnaryOp>(i);
    for (const DType dtype : all_dtypes()) {
      if (is_complex(dtype) && (is_function(op) || op == UnaryOp::kSqrt || op == UnaryOp::kReciprocal))
        continue;  // below
      SCOPED_TRACE(std::string(name(op)) + " of " + std::string(name(dtype)));
      const double error = is_function(op) || is_by_modulus(op, dtype)
                               ? function_error(dtype == DType::kInt8 ? DType::kFloat16 : dtype)
                               : kExact;
      const double widest = is_function(op) && dtype < DType::kFloat16 ? 2e-3 : error;
      expect_same({sample(dtype, {700})}, widest,
                  [op](const Operands& x) { return value_or_throw(ops::unary(op, x[0], {})); });
    }
  }
}

TEST_F(GpuOpsTest, FunctionsOfComplexNumbers) {
  for (const DType dtype : {DType::kComplex64, DType::kComplex128}) {
    for (const UnaryOp op : {UnaryOp::kSqrt, UnaryOp::kReciprocal, UnaryOp::kExp, UnaryOp::kLog,
                             UnaryOp::kLog2, UnaryOp::kLog10}) {
      SCOPED_TRACE(std::string(name(op)) + " of " + std::string(name(dtype)));
      expect_same({finite(dtype, {300})}, function_error(dtype),
                  [op](const Operands& x) { return value_or_throw(ops::unary(op, x[0], {})); });
    }
  }
  const Tensor x = finite(DType::kComplex64, {3}).to("GPU");
  const Result<Tensor> sine = ops::unary(UnaryOp::kSin, x, {});
  EXPECT_EQ(sine.status().code(), Code::kUnsupported);
  EXPECT_THAT(std::string(sine.status().what()),
              testing::AllOf(HasSubstr("sin(complex64(3,))"), HasSubstr("to(\"CPU\")")));
  EXPECT_EQ(ops::binary(BinaryOp::kPow, x, x, {}).status().code(), Code::kUnsupported);
}

TEST_F(GpuOpsTest, BinaryOperationsOfAllDtypes) {
  for (std::size_t i = 0; i < kernels::kBinaryNames.size(); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    for (const DType dtype : all_dtypes()) {
      if (op == BinaryOp::kPow && (is_complex(dtype) || dtype < DType::kFloat16)) continue;  // below
      SCOPED_TRACE(std::string(name(op)) + " of " + std::string(name(dtype)));
      const double error = is_function(op) ? (dtype < DType::kFloat16 ? 2e-3 : function_error(dtype))
                                           : product_error(op, dtype);
      expect_same({sample(dtype, {1500}, 1), sample(dtype, {1500}, 2)}, error,
                  [op](const Operands& x) { return value_or_throw(ops::binary(op, x[0], x[1], {})); });
    }
  }
}

TEST_F(GpuOpsTest, OperandsOfTwoDtypes) {
  for (const DType a : all_dtypes()) {
    for (const DType b : all_dtypes()) {
      SCOPED_TRACE(std::string(name(a)) + " and " + std::string(name(b)));
      const Operands operands{sample(a, {90}, 3), sample(b, {90}, 4)};
      for (const BinaryOp op : {BinaryOp::kAdd, BinaryOp::kLess, BinaryOp::kLogicalAnd})
        expect_same(operands, kExact,
                    [op](const Operands& x) { return value_or_throw(ops::binary(op, x[0], x[1], {})); });
      expect_same(operands, kExact, [](const Operands& x) { return ops::where(x[0], x[1], x[0]); });
    }
  }
}

TEST_F(GpuOpsTest, Conversions) {
  for (const DType from : all_dtypes()) {
    for (const DType to : all_dtypes()) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      expect_same({sample(from, {400}, 5)}, kExact,
                  [to](const Operands& x) { return value_or_throw(ops::convert(x[0], to)); });
    }
  }
  // What fits into no integer.
  const Tensor large = Tensor::empty({6}, DType::kFloat64);
  const double numbers[] = {1e30, -1e30, 3e9, -3e9, 1e19, NAN};
  std::copy(std::begin(numbers), std::end(numbers), large.span<double>().begin());
  for (const DType to : all_dtypes())
    expect_same({large}, kExact, [to](const Operands& x) { return value_or_throw(ops::convert(x[0], to)); });
}

TEST_F(GpuOpsTest, PowersOfIntegers) {
  for (const DType dtype :
       {DType::kBool, DType::kInt8, DType::kInt32, DType::kInt64, DType::kUInt16, DType::kUInt64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor exponents = ops::abs(finite(dtype, {200}, 2));
    expect_same({sample(dtype, {200}), exponents}, kExact,
                [](const Operands& x) { return ops::pow(x[0], x[1]); });
    expect_same({sample(dtype, {200})}, kExact, [](const Operands& x) { return ops::pow(x[0], 3); });
  }
  const Tensor x = finite(DType::kInt32, {5}).to("GPU");
  for (const auto& exponent : {ops::Operand(x), ops::Operand(-2)}) {
    const Result<Tensor> power = ops::binary(BinaryOp::kPow, x, exponent, {});
    EXPECT_EQ(power.status().code(), Code::kInvalid);
    EXPECT_THAT(std::string(power.status().what()), HasSubstr("negative integer powers"));
  }
}

TEST_F(GpuOpsTest, NumbersBesideTensors) {
  for (const DType dtype : all_dtypes()) {
    SCOPED_TRACE(name(dtype));
    const Operands one{sample(dtype, {777})};
    expect_same(one, kExact, [](const Operands& x) { return ops::add(x[0], 3); });
    expect_same(one, kExact, [](const Operands& x) { return ops::multiply(0.1, x[0]); });
    expect_same(one, kExact, [](const Operands& x) { return ops::subtract(2.5, x[0]); });
    expect_same(one, kExact, [](const Operands& x) { return ops::less(x[0], 2.5); });
    expect_same(one, kExact, [](const Operands& x) { return ops::equal(x[0], 1); });
    expect_same(one, kExact, [](const Operands& x) { return ops::where(x[0], 1, 0.5); });
    expect_same(one, kExact, [](const Operands& x) { return ops::clip(x[0], 1, 5); });
    expect_same(one, kExact,
                [](const Operands& x) { return ops::multiply(x[0], std::complex<double>(1, 2)); });
  }
}

TEST_F(GpuOpsTest, ShiftsByTooManyBits) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kInt64, DType::kUInt64}) {
    for (const int bits : {0, 1, 7, 8, 15, 63, 64, 100}) {
      SCOPED_TRACE(std::string(name(dtype)) + " by " + std::to_string(bits));
      expect_same({sample(dtype, {100})}, kExact,
                  [bits](const Operands& x) { return ops::bitwise_left_shift(x[0], bits); });
      expect_same({sample(dtype, {100})}, kExact,
                  [bits](const Operands& x) { return ops::bitwise_right_shift(x[0], bits); });
    }
  }
}

TEST_F(GpuOpsTest, ViewsAndBroadcasting) {
  for (const DType dtype :
       {DType::kFloat32, DType::kInt16, DType::kComplex128, DType::kBool, DType::kFloat16}) {
    SCOPED_TRACE(name(dtype));
    const Operands x{sample(dtype, {6, 10, 14}, 1), sample(dtype, {10, 1}, 2), sample(dtype, {14}, 3)};
    expect_same(x, kExact, [](const Operands& a) { return ops::add(a[0], a[1]); });
    expect_same(x, product_error(BinaryOp::kMultiply, dtype),
                [](const Operands& a) { return ops::multiply(a[2], a[0]); });
    expect_same(x, kExact, [](const Operands& a) { return ops::add(a[1], a[2]); });
    expect_same(x, kExact, [](const Operands& a) { return ops::where(a[1], a[0], a[2]); });
    expect_same(x, kExact, [](const Operands& a) {
      return ops::add(a[0].transpose(0, 2), a[0].slice(0, std::nullopt, std::nullopt, -1).transpose(0, 2));
    });
    expect_same(x, kExact, [](const Operands& a) {
      return ops::logical_or(a[0].slice(2, 11, 1, -3), a[0].slice(2, 0, 8, 2));
    });
    expect_same(x, kExact, [](const Operands& a) { return copied(ops::broadcast_to(a[2], {5, 2, 14})); });
    expect_same(x, kExact, [](const Operands& a) {
      return ops::add(a[0].select(0, 3).select(0, 2).select(0, 1), a[0]);
    });
  }
}

TEST_F(GpuOpsTest, ManyDimensionsThatDoNotJoin) {
  // Of two elements each, every second one: 15 dimensions remain.
  Dims shape(15, 4);
  for (std::size_t i = 3; i < shape.size(); ++i) shape[i] = i % 2 == 0 ? 2 : 1;
  const auto halved = [](Tensor x) {
    for (std::size_t dim = 0; dim < x.ndim(); ++dim) {
      if (x.shape()[dim] > 1) x = x.slice(static_cast<std::int64_t>(dim), std::nullopt, std::nullopt, -1);
    }
    return x;
  };
  Dims order;
  for (std::int64_t dim = 14; dim >= 0; --dim) order.push_back(dim);
  expect_same({sample(DType::kFloat64, shape)}, kExact,
              [&](const Operands& x) { return ops::add(halved(x[0]), x[0]); });
  const Dims twos(16, 2);
  Dims turned;
  for (std::int64_t dim = 15; dim >= 0; --dim) turned.push_back(dim);
  expect_same({sample(DType::kInt32, twos)}, kExact,
              [&](const Operands& x) { return ops::multiply(x[0].permute(turned), x[0]); });
  expect_same({sample(DType::kInt32, twos)}, kExact,
              [&](const Operands& x) { return copied(x[0].permute(turned)); });
}

TEST_F(GpuOpsTest, NoElementsAndNoDimensions) {
  const Tensor none = Tensor::empty({3, 0}, DType::kFloat32);
  expect_same({none}, kExact, [](const Operands& x) { return ops::exp(x[0]); });
  expect_same({none}, kExact, [](const Operands& x) { return ops::add(x[0], 1); });
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUInt8, DType::kComplex64}) {
    expect_same({sample(dtype, {}, 4), sample(dtype, {}, 9)}, kExact,
                [](const Operands& x) { return ops::add(x[0], x[1]); });
    expect_same({sample(dtype, {}, 4)}, kExact, [](const Operands& x) { return ops::negative(x[0]); });
  }
}

TEST_F(GpuOpsTest, IntoATensor) {
  const auto into = [](DType dtype, const Dims& shape, auto compute) {
    return [=](const Operands& x) {
      const Tensor out = x.back();
      EXPECT_EQ(out.dtype(), dtype);
      EXPECT_EQ(out.shape(), shape);
      return compute(x, out);
    };
  };
  const Operands narrow{sample(DType::kInt8, {50}, 1), sample(DType::kInt8, {50}, 2),
                        sample(DType::kInt32, {50}, 3)};
  // The sum wraps around in int8 before it becomes an int32.
  expect_same(narrow, kExact, into(DType::kInt32, {50}, [](const Operands& x, const Tensor& out) {
                return ops::add(x[0], x[1], out);
              }));
  const Operands floats{finite(DType::kFloat64, {40, 30}, 1), finite(DType::kFloat32, {30, 40}, 2)};
  expect_same(floats, kExact, [](const Operands& x) { return ops::add(x[0], 1, x[1].transpose(0, 1)); });
  // Overlapping.
  expect_same({finite(DType::kFloat32, {1000})}, kExact,
              [](const Operands& x) { return ops::add(x[0].slice(0, 0, 999), 1, x[0].slice(0, 1, 1000)); });
  expect_same({finite(DType::kFloat32, {1000})}, kExact,
              [](const Operands& x) { return ops::multiply(x[0], x[0], x[0]); });
  const Tensor x = finite(DType::kFloat32, {4}).to("GPU");
  EXPECT_THROW(ops::add(x, 1, x.as_readonly()), Error);
  EXPECT_THROW(ops::add(x, finite(DType::kFloat32, {4})), Error) << "two devices";
}

}  // namespace
}  // namespace forklift::test
