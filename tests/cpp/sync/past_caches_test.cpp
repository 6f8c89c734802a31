#include "sync/past_caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace forklift::sync {
namespace {

TEST(CopyPastCaches, CopiesAsMemcpyOnBothSidesOfItsLimit) {
  const std::size_t limit = past_caches_from();
  std::vector<std::uint8_t> from(2 * limit + 200);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251);
  for (const std::size_t bytes : {std::size_t{4095}, limit + 65, 2 * limit - 1, 2 * limit + 65}) {
    std::vector<std::uint8_t> got(bytes + 2, 255);
    copy_past_caches(got.data() + 1, from.data() + 3, bytes);
    EXPECT_EQ(std::memcmp(got.data() + 1, from.data() + 3, bytes), 0) << bytes;
    EXPECT_EQ(got.front(), 255);
    EXPECT_EQ(got.back(), 255) << bytes;
  }
}

TEST(CopyBytes, CopiesWhateverTheDistanceWithinAPage) {
  constexpr std::size_t kPage = 4096;
  constexpr std::uint8_t kOutside = 255;
  std::vector<std::uint8_t> from(kPage * 20), got(kPage * 20);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251);
  const auto in_page = [](const auto& bytes) {
    return (kPage - reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage) % kPage;
  };
  const std::size_t source = in_page(from), target = in_page(got);
  for (const std::size_t behind : {0u, 1u, 8u, 16u, 31u, 32u, 4095u}) {
    for (const std::size_t bytes : {0u, 1u, 2048u, 2049u, 2113u, 4096u, 65'537u}) {
      std::fill(got.begin(), got.end(), kOutside);
      copy_bytes(&got[target + behind], &from[source], bytes);
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(target + behind);
      EXPECT_EQ(std::memcmp(&*begin, &from[source], bytes), 0) << bytes << " bytes, " << behind << " behind";
      EXPECT_EQ(std::count(got.begin(), begin, kOutside), begin - got.begin());
      EXPECT_EQ(begin[static_cast<std::ptrdiff_t>(bytes)], kOutside)
          << bytes << " bytes, " << behind << " behind";
    }
  }
}

TEST(CopyLarge, CopiesAsMemcpyOnBothSidesOfItsLimits) {
  const std::size_t limit = past_caches_from();
  ASSERT_GE(limit, std::size_t{64} << 10);
  constexpr std::size_t kByPage = std::size_t{768} << 10;
  constexpr std::uint8_t kOutside = 255;
  std::vector<std::uint8_t> from(limit + 200);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4095}, kByPage - 1, kByPage, kByPage + 4097,
                                  limit - 1, limit, limit + 65}) {
    std::vector<std::uint8_t> got(bytes + 8, kOutside);
    copy_large(got.data() + 5, from.data() + 3, bytes);
    EXPECT_EQ(std::memcmp(got.data() + 5, from.data() + 3, bytes), 0) << bytes;
    EXPECT_TRUE(std::all_of(got.begin(), got.begin() + 5, [](auto byte) { return byte == kOutside; }));
    EXPECT_TRUE(std::all_of(got.end() - 3, got.end(), [](auto byte) { return byte == kOutside; })) << bytes;
  }
}

}  // namespace
}  // namespace forklift::sync
