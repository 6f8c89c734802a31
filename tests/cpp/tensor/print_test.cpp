// What a DType, a shape and a tensor look like in a stream.
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string>
#include <version>

#include "forklift/tensor.h"
#include "support/counting.h"

#if defined(__cpp_lib_format)
#include <format>
#endif

namespace forklift {
namespace {

using test::counting;

template <class T>
std::string printed(const T& object) {
  std::ostringstream out;
  out << object;
  return out.str();
}

// A tensor of one dimension that holds these.
template <class T>
Tensor holding(std::initializer_list<T> items) {
  Tensor tensor = Tensor::wrap(Storage::heap(items.size() * sizeof(T)), dtype_of<T>(),
                               {static_cast<std::int64_t>(items.size())});
  T* out = tensor.data<T>();
  for (const T& item : items) *out++ = item;
  return tensor;
}

TEST(Print, DTypes) {
  EXPECT_EQ(printed(DType::kFloat32), "float32");
  EXPECT_EQ(printed(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(printed(static_cast<DType>(0)), "invalid");
}

TEST(Print, Shapes) {
  EXPECT_EQ(printed(Dims{480, 640, 3}), "(480, 640, 3)");
  EXPECT_EQ(printed(Dims{5}), "(5,)");
  EXPECT_EQ(printed(Dims{}), "()");
  EXPECT_EQ(printed(counting({2, 3}).strides()), "(3, 1)");
}

TEST(Print, SmallTensorsWhole) {
  EXPECT_EQ(printed(counting({3})), "int32(3,) [0, 1, 2]");
  EXPECT_EQ(printed(counting({2, 3})), "int32(2, 3) [[0, 1, 2], [3, 4, 5]]");
  EXPECT_EQ(printed(counting({2, 1, 2})), "int32(2, 1, 2) [[[0, 1]], [[2, 3]]]");
  EXPECT_EQ(printed(counting({6})), "int32(6,) [0, 1, 2, 3, 4, 5]");
}

TEST(Print, TheFirstAndTheLastOfALongDimension) {
  EXPECT_EQ(printed(counting({7})), "int32(7,) [0, 1, 2, ..., 4, 5, 6]");
  EXPECT_EQ(printed(counting({1000})), "int32(1000,) [0, 1, 2, ..., 997, 998, 999]");
  EXPECT_EQ(printed(counting({8, 2})),
            "int32(8, 2) [[0, 1], [2, 3], [4, 5], ..., [10, 11], [12, 13], [14, 15]]");
  EXPECT_EQ(printed(counting({2, 10})),
            "int32(2, 10) [[0, 1, 2, ..., 7, 8, 9], [10, 11, 12, ..., 17, 18, 19]]");
}

TEST(Print, ViewsInTheirOwnOrder) {
  const Tensor tensor = counting({2, 3});
  EXPECT_EQ(printed(tensor.transpose(0, 1)), "int32(3, 2) [[0, 3], [1, 4], [2, 5]]");
  EXPECT_EQ(printed(tensor.slice(1, {}, {}, -2)), "int32(2, 2) [[2, 0], [5, 3]]");
  EXPECT_EQ(printed(Tensor::wrap_strided(tensor.storage(), DType::kInt32, {3}, {0}, 8)),
            "int32(3,) [2, 2, 2]");
  EXPECT_EQ(printed(tensor.as_readonly()), printed(tensor));
}

TEST(Print, NothingAndScalars) {
  EXPECT_EQ(printed(Tensor()), "float32(0,) []");
  EXPECT_EQ(printed(counting({2, 0, 3})), "int32(2, 0, 3) []");
  EXPECT_EQ(printed(counting({}).as_readonly()), "int32() 0");
  EXPECT_EQ(printed(counting({7}).select(0, -1)), "int32() 6");
}

TEST(Print, EveryTypeAsNumbers) {
  EXPECT_EQ(printed(holding<bool>({true, false})), "bool(2,) [true, false]");
  EXPECT_EQ(printed(holding<std::int8_t>({65, -128})), "int8(2,) [65, -128]");  // no text
  EXPECT_EQ(printed(holding<std::uint8_t>({65, 255})), "uint8(2,) [65, 255]");
  EXPECT_EQ(printed(holding<std::int16_t>({-32768})), "int16(1,) [-32768]");
  EXPECT_EQ(printed(holding<std::uint16_t>({65535})), "uint16(1,) [65535]");
  EXPECT_EQ(printed(holding<std::uint32_t>({4294967295U})), "uint32(1,) [4294967295]");
  EXPECT_EQ(printed(holding<std::int64_t>({INT64_MIN})), "int64(1,) [-9223372036854775808]");
  EXPECT_EQ(printed(holding<std::uint64_t>({UINT64_MAX})), "uint64(1,) [18446744073709551615]");
  EXPECT_EQ(printed(holding<Float16>({Float16(0.5F), Float16(-2.0F)})), "float16(2,) [0.5, -2]");
  EXPECT_EQ(printed(holding<BFloat16>({BFloat16(1.5F)})), "bfloat16(1,) [1.5]");
  EXPECT_EQ(printed(holding<float>({0.25F, std::numeric_limits<float>::infinity()})),
            "float32(2,) [0.25, inf]");
  EXPECT_EQ(printed(holding<double>({-1.5, 1e300})), "float64(2,) [-1.5, 1e+300]");
  EXPECT_EQ(printed(holding<std::complex<float>>({{1, -2}})), "complex64(1,) [(1,-2)]");
  EXPECT_EQ(printed(holding<std::complex<double>>({{0, 0.5}})), "complex128(1,) [(0,0.5)]");
}

#if defined(__cpp_lib_format)
TEST(Print, FormatsAsItStreams) {
  EXPECT_EQ(std::format("{}", DType::kFloat32), "float32");
  EXPECT_EQ(std::format("{:>8}|", Dims{5}), "    (5,)|");
  EXPECT_EQ(std::format("{}", counting({2})), "int32(2,) [0, 1]");
}
#endif

}  // namespace
}  // namespace forklift
