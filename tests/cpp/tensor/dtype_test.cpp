#include "forklift/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace forklift {
namespace {

TEST(DType, EveryNumberHasOneNameAndSize) {
  std::set<std::string_view> names;
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    const auto dtype = dtype_from_code(code);
    ASSERT_TRUE(dtype);
    EXPECT_TRUE(names.insert(name(*dtype)).second);
    EXPECT_EQ(dtype_from_name(name(*dtype)), dtype);
    EXPECT_EQ(item_size(*dtype) % alignment(*dtype), 0u);
    if (*dtype != DType::kBFloat16) {
      EXPECT_EQ(dtype_from_typestr(typestr(*dtype)), dtype);
      EXPECT_EQ(std::to_string(item_size(*dtype)), typestr(*dtype).substr(2));
    }
  }
  EXPECT_EQ(names.size(), 15u);
}

TEST(DType, NumbersNeverChange) {  // they travel between processes and versions
  EXPECT_EQ(static_cast<int>(DType::kBool), 1);
  EXPECT_EQ(static_cast<int>(DType::kInt64), 5);
  EXPECT_EQ(static_cast<int>(DType::kUInt64), 9);
  EXPECT_EQ(static_cast<int>(DType::kFloat16), 10);
  EXPECT_EQ(static_cast<int>(DType::kFloat32), 12);
  EXPECT_EQ(static_cast<int>(DType::kComplex128), 15);
}

TEST(DType, RefusesWhatIsNone) {
  EXPECT_FALSE(dtype_from_code(0));
  EXPECT_FALSE(dtype_from_code(16));
  EXPECT_FALSE(dtype_from_code(255));
  EXPECT_EQ(item_size(static_cast<DType>(0)), 0u);
  EXPECT_EQ(item_size(static_cast<DType>(200)), 0u);
  EXPECT_EQ(name(static_cast<DType>(99)), "invalid");
  EXPECT_FALSE(dtype_from_name("float80"));
  EXPECT_FALSE(dtype_from_name("invalid"));
  for (const char* none :
       {"", "f4", ">f4", "|f4", "<f16", "<U4", "|S3", "<M8[ns]", "|O", "|V8", "<b1x", "<c4"}) {
    EXPECT_FALSE(dtype_from_typestr(none)) << none;
  }
}

TEST(DType, TypestringsMayNameTheOrderOtherwise) {
  EXPECT_EQ(dtype_from_typestr("=f4"), DType::kFloat32);
  EXPECT_EQ(dtype_from_typestr("<u1"), DType::kUInt8);
  EXPECT_EQ(dtype_from_typestr(">i1"), DType::kInt8);  // one byte has no order
}

TEST(DType, OfCppTypes) {
  static_assert(dtype_of<bool>() == DType::kBool);
  static_assert(dtype_of<std::int8_t>() == DType::kInt8);
  static_assert(dtype_of<std::uint8_t>() == DType::kUInt8);
  static_assert(dtype_of<short>() == DType::kInt16);
  static_assert(dtype_of<std::int32_t>() == DType::kInt32);
  static_assert(dtype_of<long>() == DType::kInt64);
  static_assert(dtype_of<long long>() == DType::kInt64);
  static_assert(dtype_of<unsigned long long>() == DType::kUInt64);
  static_assert(dtype_of<const std::uint16_t>() == DType::kUInt16);
  static_assert(dtype_of<Float16>() == DType::kFloat16);
  static_assert(dtype_of<BFloat16>() == DType::kBFloat16);
  static_assert(dtype_of<double>() == DType::kFloat64);
  static_assert(dtype_of<std::complex<float>>() == DType::kComplex64);
  static_assert(dtype_of<std::complex<double>>() == DType::kComplex128);
  static_assert(!Element<char> && !Element<wchar_t> && !Element<long double> && !Element<int*> &&
                !Element<void>);
}

// All 65,536 values survive, and each boundary between two neighbours is where IEEE 754 puts it: that is
// every decision that a correct conversion makes.
template <class Half>
void check_rounding(std::uint16_t largest) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half = Half::from_bits(static_cast<std::uint16_t>(bits));
    const Half back(static_cast<float>(half));
    if (std::isnan(static_cast<float>(half))) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
      EXPECT_EQ(back.bits >> 15, half.bits >> 15);
    } else {
      EXPECT_EQ(back.bits, bits);
    }
  }
  for (std::uint16_t bits = 0; bits < largest; ++bits) {
    const float low = Half::from_bits(bits);
    const float high = Half::from_bits(static_cast<std::uint16_t>(bits + 1));
    const float middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
    const auto even = static_cast<std::uint16_t>((bits & 1) == 0 ? bits : bits + 1);
    for (const float sign : {1.0f, -1.0f}) {
      const int top = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(Half(sign * middle).bits, top | even);
      EXPECT_EQ(Half(sign * std::nextafter(middle, low)).bits, top | bits);
      EXPECT_EQ(Half(sign * std::nextafter(middle, high)).bits, top | (bits + 1));
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  check_rounding<Float16>(0x7bff);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(Float16(infinity).bits, 0x7c00);
  EXPECT_EQ(Float16(1e-30f).bits, 0);
  EXPECT_EQ(Float16(-0.0f).bits, 0x8000);
  EXPECT_EQ(Float16(std::numeric_limits<float>::denorm_min()).bits, 0);
  // A NaN whose payload lies in the bits that are cut off must not become an infinity.
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16, RoundsToNearestEven) {
  check_rounding<BFloat16>(0x7f7f);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(BFloat16(-0.0f).bits, 0x8000);
}

TEST(Float16, ComparesAndComputesAsFloat) {
  static_assert(Float16(1.5f) == 1.5f);  // usable in constant expressions
  static_assert(BFloat16(-2.0f) == -2.0f);
  EXPECT_EQ(Float16(0.5f) + Float16(0.25f), 0.75f);
  EXPECT_EQ(Float16(-0.0f), Float16(0.0f));
}

}  // namespace
}  // namespace forklift
