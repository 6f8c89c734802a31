#include "container/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace forklift::container {
namespace {

// How many nodes a successful look-up visits on average, with as many buckets as keys. By chance: 1.5.
template <class Key>
double nodes_visited(const std::vector<Key>& keys) {
  std::vector<std::uint32_t> buckets(keys.size());
  std::uint64_t visited = 0;
  for (const Key& key : keys) visited += ++buckets[hash_of(&key, sizeof key) & (buckets.size() - 1)];
  return static_cast<double>(visited) / static_cast<double>(keys.size());
}

TEST(Hash, SpreadsKeysThatDifferByOneStride) {
  for (const std::size_t count : {16u, 64u, 256u, 1024u, 4096u, 65'536u}) {
    for (const std::uint64_t stride : {1ull, 2ull, 3ull, 8ull, 10ull, 16ull, 64ull, 1000ull, 4096ull,
                                       1ull << 20, 1ull << 32, 1ull << 40}) {
      for (const std::uint64_t first : {0ull, 12'345ull}) {
        std::vector<std::uint64_t> keys(count);
        for (std::size_t i = 0; i < count; ++i) keys[i] = first + i * stride;
        EXPECT_LT(nodes_visited(keys), 2.2) << count << " keys from " << first << " by " << stride;
      }
    }
  }
}

TEST(Hash, SpreadsShortAndLongKeys) {
  std::vector<std::uint16_t> shorts(1024);
  std::vector<std::uint32_t> words(4096);
  std::vector<std::array<char, 20>> names(4096);
  for (std::size_t i = 0; i < shorts.size(); ++i) shorts[i] = static_cast<std::uint16_t>(i);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 16);
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = {'n', 'a', 'm', 'e'};
    for (std::size_t digit = 0, rest = i; digit < 4; ++digit, rest /= 10)
      names[i][19 - digit] = static_cast<char>('0' + rest % 10);
  }
  EXPECT_LT(nodes_visited(shorts), 2.0);
  EXPECT_LT(nodes_visited(words), 1.8);
  EXPECT_LT(nodes_visited(names), 1.8);
}

// Every byte counts, and where a key ends.
TEST(Hash, TellsKeysApart) {
  std::array<char, 20> key{};
  const std::uint64_t empty = hash_of(key.data(), key.size());
  for (char& each : key) {
    each = 1;
    EXPECT_NE(hash_of(key.data(), key.size()), empty);
    each = 0;
  }
  EXPECT_NE(hash_of(key.data(), 8), hash_of(key.data(), 16));
  EXPECT_NE(hash_of(key.data(), 17), hash_of(key.data(), 18));
}

}  // namespace
}  // namespace forklift::container
