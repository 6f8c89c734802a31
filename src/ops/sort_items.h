// Sorting what stands for elements: their keys (sort_key.h), alone or with where they stand.
//
//   Ranked<std::uint32_t>* sorted = sort_items(items, spare, count);     // one of the two arrays
//
// Equal items keep their order. Keys of up to 64 bits are sorted by their bytes, from the last to the first.
//
// Thread safety: pure functions on the caller's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/sort_key.h"

namespace forklift::inline abi_0_1::ops {

template <class Key>
struct Ranked {
  Key key;
  std::int64_t index;
};

template <class Key>
Key item_key(Key key) noexcept {
  return key;
}
template <class Key>
Key item_key(const Ranked<Key>& item) noexcept {
  return item.key;
}

// Fewer items are sorted by comparing them.
inline constexpr std::int64_t kFewItems = 256;

// Merges the sorted [a, a + m) and [b, b + n) and writes the results [first, last) of them to `out`. Of equal items
// those of `a` come first.
template <class Item>
void merge_part(const Item* a, std::int64_t m, const Item* b, std::int64_t n, std::int64_t first,
                std::int64_t last, Item* out) noexcept {
  std::int64_t low = std::max<std::int64_t>(0, first - n);  // how many of the first results are from `a`
  std::int64_t high = std::min(first, m);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (item_key(b[first - middle - 1]) < item_key(a[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::int64_t i = low;
  std::int64_t j = first - low;
  for (std::int64_t k = first; k < last; ++k) {
    const bool from_b = i == m || (j < n && item_key(b[j]) < item_key(a[i]));
    *out++ = from_b ? b[j++] : a[i++];
  }
}

template <class Item>
Item* sort_by_bytes(Item* items, Item* spare, std::int64_t count) noexcept {
  using Key = decltype(item_key(*items));
  std::array<std::array<std::int64_t, 256>, sizeof(Key)> counts{};
  for (std::int64_t i = 0; i < count; ++i) {
    const Key key = item_key(items[i]);
    for (std::size_t byte = 0; byte < sizeof(Key); ++byte) ++counts[byte][(key >> (8 * byte)) & 0xFF];
  }
  for (std::size_t byte = 0; byte < sizeof(Key); ++byte) {
    std::array<std::int64_t, 256>& places = counts[byte];
    if (places[(item_key(items[0]) >> (8 * byte)) & 0xFF] == count) continue;  // all alike
    std::int64_t before = 0;
    for (std::int64_t& place : places) {
      const std::int64_t here = place;
      place = before;
      before += here;
    }
    for (std::int64_t i = 0; i < count; ++i)
      spare[places[(item_key(items[i]) >> (8 * byte)) & 0xFF]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

// The array that holds the sorted items.
template <class Item>
Item* sort_items(Item* items, Item* spare, std::int64_t count) {
  if constexpr (!std::is_same_v<decltype(item_key(*items)), WideKey>) {
    if (count >= kFewItems) return sort_by_bytes(items, spare, count);
  }
  std::stable_sort(items, items + count,
                   [](const Item& a, const Item& b) { return item_key(a) < item_key(b); });
  return items;
}

}  // namespace forklift::inline abi_0_1::ops
