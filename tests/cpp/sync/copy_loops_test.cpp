// Each loop on whatever processor this is, whether or not it would be chosen here.
#include "sync/copy_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace forklift::sync {
namespace {

constexpr std::uint8_t kOutside = 255;

std::vector<std::uint8_t> numbered(std::size_t bytes) {
  std::vector<std::uint8_t> out(bytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i % 251);
  return out;
}

using Loop = void (*)(void*, const void*, std::size_t) noexcept;
class CopyLoop : public testing::TestWithParam<Loop> {};

TEST_P(CopyLoop, CopiesItsBytesAndNoOthers) {
  const std::vector<std::uint8_t> from = numbered(10'000);
  for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 127u, 200u, 4096u, 8300u}) {
    for (const std::size_t to_at : {0u, 1u, 16u, 63u}) {
      for (const std::size_t from_at : {0u, 3u, 64u}) {
        std::vector<std::uint8_t> got(from.size(), kOutside);
        std::vector<std::uint8_t> expected = got;
        GetParam()(got.data() + to_at, from.data() + from_at, bytes);
        std::copy_n(from.data() + from_at, bytes, expected.data() + to_at);
        EXPECT_EQ(got, expected) << bytes << " bytes from " << from_at << " to " << to_at;
      }
    }
  }
}

TEST_P(CopyLoop, CopiesALongOnePageByPage) {
  const std::vector<std::uint8_t> from = numbered((std::size_t{300} << 10) + 100);
  for (const std::size_t bytes : {std::size_t{256} << 10, from.size() - 1}) {
    std::vector<std::uint8_t> got(bytes + 2, kOutside);
    GetParam()(got.data() + 1, from.data() + 1, bytes);
    EXPECT_EQ(std::memcmp(got.data() + 1, from.data() + 1, bytes), 0) << bytes;
    EXPECT_EQ(got.front(), kOutside);
    EXPECT_EQ(got.back(), kOutside) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CopyLoop, testing::Values(copy_by_lines, copy_pages_ahead, copy_by_streaming),
                         [](const auto& loop) {
                           return loop.param == copy_by_lines      ? "ByLines"
                                  : loop.param == copy_pages_ahead ? "PagesAhead"
                                                                   : "ByStreaming";
                         });

}  // namespace
}  // namespace forklift::sync
