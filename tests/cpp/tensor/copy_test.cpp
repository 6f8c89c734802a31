#include "tensor/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/extent.h"

namespace forklift::tensor {
namespace {

// One item after the other, as slowly and plainly as can be.
void copy_plainly(std::byte* dst, DimSpan dst_strides, const std::byte* src, DimSpan src_strides,
                  DimSpan shape, std::size_t item) {
  const std::int64_t count = *numel(shape);
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const std::int64_t at = rest % shape[i];
      rest /= shape[i];
      to += at * dst_strides[i];
      from += at * src_strides[i];
    }
    std::memcpy(dst + to, src + from, item);
  }
}

struct Case {
  Dims shape;
  Dims strides;  // of the source, in bytes
  std::size_t item;
};

void check(const Case& c) {
  SCOPED_TRACE(c.shape.to_string() + " by " + c.strides.to_string() + " of " + std::to_string(c.item));
  const Extent extent = *byte_extent(c.shape, c.strides, c.item, 1);
  std::vector<std::byte> memory(static_cast<std::size_t>(extent.high - extent.low));
  std::mt19937 random(1);
  for (std::byte& b : memory) b = static_cast<std::byte>(random());
  const std::byte* first = memory.data() - extent.low;
  const auto bytes = static_cast<std::size_t>(*byte_count(c.shape, c.item));
  for (const Order order : {Order::kC, Order::kF}) {
    const Dims dense = byte_strides(order == Order::kC ? c_strides(c.shape) : f_strides(c.shape), c.item);
    std::vector<std::byte> expected(bytes);
    std::vector<std::byte> got(bytes);
    copy_plainly(expected.data(), dense, first, c.strides, c.shape, c.item);
    copy_strided(got.data(), first, c.strides, c.shape, c.item, order);
    EXPECT_EQ(got, expected);
  }
}

TEST(CopyStrided, TheUsualViews) {
  check({{}, {}, 8});
  check({{0}, {8}, 8});
  check({{5, 0, 3}, {24, 8, 8}, 8});
  check({{7}, {4}, 4});
  check({{7}, {-4}, 4});
  check({{100}, {0}, 4});                // broadcast
  check({{64, 48}, {512, 8}, 8});        // a crop: dense rows
  check({{64, 48, 3}, {600, 3, 1}, 1});  // a crop of an image: rows of pixels
  check({{64, 48, 4}, {800, 8, 1}, 1});  // four of eight channels: four bytes are one item
  check({{48, 64}, {4, 192}, 4});        // a transposition
  check({{33, 65, 7}, {4, 132, 8580}, 4});
  check({{3, 40, 50}, {1, 150, 3}, 1});  // channels last to channels first
  check({{10, 10}, {-400, -8}, 8});      // turned around
  check({{5, 6}, {0, 4}, 4});            // a broadcast row
  check({{5, 6}, {4, 0}, 4});            // a broadcast column
  check({{20, 5}, {4, 4}, 4});           // a sliding window
  check({{50}, {12}, 4});                // a column of a structured array, then misaligned ones
  check({{50}, {7}, 4});
  check({{50, 2}, {9, 3}, 3});  // items of an odd size
  check({{9, 4}, {160, 40}, 24});
  check({{2, 1, 3}, {12, 1 << 30, 4}, 4});
}

TEST(CopyStrided, AnyViewEqualsThePlainCopy) {
  std::mt19937 random(42);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n + 1)); };
  const std::size_t items[] = {1, 2, 3, 4, 8, 12, 16};
  for (int round = 0; round < 3000; ++round) {
    Case c;
    c.item = items[upto(6)];
    const int ndim = upto(5);
    std::int64_t step = static_cast<std::int64_t>(c.item);
    std::vector<std::pair<std::int64_t, std::int64_t>> dims;
    for (int i = 0; i < ndim; ++i) {
      const std::int64_t length = upto(5) == 0 ? upto(40) : 1 + upto(5);
      std::int64_t stride =
          upto(8) == 0 ? 0 : step * (1 + (upto(3) == 0 ? upto(2) : 0)) + (upto(9) == 0 ? 1 : 0);
      if (stride != 0) step = stride * std::max<std::int64_t>(length, 1);
      if (upto(3) == 0) stride = -stride;
      dims.emplace_back(length, stride);
      if (step > 1 << 20) break;
    }
    std::shuffle(dims.begin(), dims.end(), random);
    for (const auto& [length, stride] : dims) {
      c.shape.push_back(length);
      c.strides.push_back(stride);
    }
    if (*byte_count(c.shape, c.item) > 1 << 18) continue;
    check(c);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CopyStrided, SixtyFourDimensions) {
  Case c{Dims(std::size_t{64}, 1), Dims(std::size_t{64}, 8), 8};
  for (const std::size_t i : {3u, 17u, 40u, 63u}) c.shape[i] = 2;
  c.strides[3] = -16;
  c.strides[17] = 64;
  c.strides[40] = 8;
  c.strides[63] = 256;
  check(c);
}

TEST(CopyStrided, BetweenTwoStridedArrays) {
  std::vector<std::uint16_t> from(200);
  std::iota(from.begin(), from.end(), std::uint16_t{0});
  std::vector<std::uint16_t> got(300, 9);
  std::vector<std::uint16_t> expected(300, 9);
  const Dims shape{5, 6};
  const Dims to_strides{-80, 6};
  const Dims from_strides{2, 20};
  auto* got_first = reinterpret_cast<std::byte*>(got.data() + 200);
  auto* expected_first = reinterpret_cast<std::byte*>(expected.data() + 200);
  const auto* source = reinterpret_cast<const std::byte*>(from.data());
  copy_strided(got_first, to_strides, source, from_strides, shape, 2);
  copy_plainly(expected_first, to_strides, source, from_strides, shape, 2);
  EXPECT_EQ(got, expected);
}

TEST(FillStrided, TouchesOnlyItsItems) {
  std::vector<std::uint32_t> memory(40, 1);
  const std::uint32_t item = 7;
  fill_strided(memory.data() + 2, Dims{40, 4}, Dims{3, 4}, &item, 4);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool inside = i >= 2 && (i - 2) % 10 < 4 && (i - 2) / 10 < 3;
    EXPECT_EQ(memory[i], inside ? 7u : 1u) << i;
  }
}

}  // namespace
}  // namespace forklift::tensor
