// Loops whose results go past the caches do the same as the others.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/loops.h"

namespace forklift::kernels {
namespace {

constexpr DType kDTypes[] = {DType::kInt32,  DType::kInt64,   DType::kUInt32,
                             DType::kUInt64, DType::kFloat32, DType::kFloat64};
constexpr BinaryOp kBinaryOps[] = {BinaryOp::kAdd,    BinaryOp::kSubtract, BinaryOp::kMultiply,
                                   BinaryOp::kDivide, BinaryOp::kMaximum,  BinaryOp::kMinimum};
constexpr UnaryOp kUnaryOps[] = {UnaryOp::kNegative, UnaryOp::kPositive, UnaryOp::kSquare, UnaryOp::kAbs,
                                 UnaryOp::kSqrt};

// Elements and a margin of one line on each side, which nothing may write.
class Buffer {
 public:
  explicit Buffer(std::uint32_t seed) {
    std::uint32_t state = seed;
    for (std::size_t i = 0; i < bytes_.size(); i += 4) {
      state = state * 1664525U + 1013904223U;
      const std::uint32_t word = (state >> 8) | 0x40000000U;  // no NaN, whose payload may differ
      std::memcpy(&bytes_[i], &word, 4);
    }
  }
  std::byte* at(std::size_t offset) { return bytes_.data() + 64 + offset; }
  bool operator==(const Buffer&) const = default;

 private:
  alignas(64) std::array<std::byte, 4096> bytes_;
};

bool is_real(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

TEST(Streaming, BinaryLoopsWriteWhatTheOthersWrite) {
#ifndef __SSE2__
  GTEST_SKIP() << "this processor has no such stores";
#endif
  for (const DType dtype : kDTypes) {
    const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
    for (const BinaryOp op : kBinaryOps) {
      const BinaryLoop streaming = loops().streaming_binary(op, dtype);
      if (op == BinaryOp::kDivide && !is_real(dtype)) {
        EXPECT_EQ(streaming, nullptr);
        continue;
      }
      ASSERT_NE(streaming, nullptr) << name(dtype);
      for (const std::ptrdiff_t count : {0, 1, 7, 16, 17, 100, 257}) {
        for (const std::size_t start : {0, 1, 5}) {
          for (const auto& [a_step, b_step] : {std::pair(item, item), std::pair(item, std::ptrdiff_t{0}),
                                               std::pair(std::ptrdiff_t{0}, item), std::pair(-item, item)}) {
            Buffer a(1);
            Buffer b(2);
            Buffer expected(3);
            Buffer found(3);
            const std::byte* const from = a.at(a_step < 0 ? 2048 : 8);
            const std::size_t offset = start * static_cast<std::size_t>(item);
            loops().binary(op, dtype)(from, a_step, b.at(0), b_step, expected.at(offset), item, count);
            streaming(from, a_step, b.at(0), b_step, found.at(offset), item, count);
            EXPECT_EQ(expected, found) << name(op) << ' ' << name(dtype) << ' ' << count << ' ' << start;
          }
        }
      }
    }
  }
}

TEST(Streaming, UnaryLoopsWriteWhatTheOthersWrite) {
#ifndef __SSE2__
  GTEST_SKIP() << "this processor has no such stores";
#endif
  for (const DType dtype : kDTypes) {
    const auto item = static_cast<std::ptrdiff_t>(item_size(dtype));
    for (const UnaryOp op : kUnaryOps) {
      const UnaryLoop streaming = loops().streaming_unary(op, dtype);
      if (op == UnaryOp::kSqrt && !is_real(dtype)) {
        EXPECT_EQ(streaming, nullptr);
        continue;
      }
      ASSERT_NE(streaming, nullptr) << name(dtype);
      for (const std::ptrdiff_t count : {0, 1, 16, 17, 100, 257}) {
        for (const std::ptrdiff_t step : {item, -item, std::ptrdiff_t{0}}) {
          Buffer in(4);
          Buffer expected(5);
          Buffer found(5);
          const std::byte* const from = in.at(step < 0 ? 2048 : 8);
          loops().unary(op, dtype)(from, step, expected.at(8), item, count);
          streaming(from, step, found.at(8), item, count);
          EXPECT_EQ(expected, found) << name(op) << ' ' << name(dtype) << ' ' << count;
        }
      }
    }
  }
}

TEST(Streaming, OnlyWhatTakesLessTimeThanTheMemoryHasSuchLoops) {
  EXPECT_EQ(loops().streaming_binary(BinaryOp::kPow, DType::kFloat32), nullptr);
  EXPECT_EQ(loops().streaming_unary(UnaryOp::kExp, DType::kFloat64), nullptr);
  EXPECT_EQ(loops().streaming_binary(BinaryOp::kAdd, DType::kInt8), nullptr);
  EXPECT_EQ(loops().streaming_binary(BinaryOp::kAdd, DType::kComplex64), nullptr);
}

}  // namespace
}  // namespace forklift::kernels
