// Blocks that this process keeps for its next allocations instead of giving them back to the ledger.
//
//   if (!magazine.wanted(kind, size_class)) return false;          // this class is not in steady use
//   if (magazine.full(kind, size_class)) magazine.clear_half(kind, size_class, surplus);
//   magazine.put(kind, size_class, kept);
//   ...
//   CachedBlock kept;
//   if (magazine.take(kind, size_class, need, kept)) ...
//
// A kept block stays this process's in the ledger, with count and lease row as they were, so whoever dies
// with a full magazine leaves nothing that the reaper would not give back anyway, and keeping costs no
// transaction: only the block's meta word changes, and that belongs to its only holder. Last in, first out,
// since that one is in the cache. A class takes part when the process has given up some blocks of it: who
// makes three tensors keeps none.
//
// A full magazine passes half of itself on to the depot (arena/cache/depots.h), where other processes find
// it: sender and receiver of a flow of blocks then meet once in a batch. It holds two batches where blocks
// are also taken from it, so that taking and giving by turns meets nobody; where they are only given, one, so
// that fewer are on their way.
//
// Process-private, and empty in a forked child. Not thread-safe: guarded by the arena's process-private lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "arena/tables.h"

namespace forklift::arena {

struct CachedBlock {
  std::uint32_t block;
  std::uint32_t row;  // its only lease
  std::uint32_t generation;
  std::uint64_t offset;
  std::uint64_t committed;
};

// What left a magazine or a depot together.
struct Batch {
  static constexpr std::size_t kMost = 8;
  std::array<CachedBlock, kMost> items;
  std::size_t count = 0;
};

class Magazine {
 public:
  // Blocks of a class that change hands together: as many as make 4 MiB, so that what circulates stays in the
  // caches. Beyond 1 MiB one at a time: whoever fills such a block does not notice a meeting, but does notice
  // when the pages of all that circulate are more than the translation buffer holds (2,048 of 4 KiB).
  static constexpr std::size_t batch(unsigned size_class) noexcept {
    if (size_class > 20) return 1;
    return std::clamp<std::size_t>((std::size_t{4} << 20) >> size_class, 1, Batch::kMost);
  }

  // Counts a block that is given up: does its class keep any?
  bool wanted(Kind kind, unsigned size_class) noexcept {
    if (size_class > kLargestKept) return false;
    OfClass& one = of_class(kind, size_class);
    if (one.given_up >= kHotAfter) return true;
    ++one.given_up;
    return false;
  }
  bool full(Kind kind, unsigned size_class) noexcept {
    OfClass& one = of_class(kind, size_class);
    return one.count >= (one.taken ? 2 : 1) * batch(size_class);
  }
  // The colder half.
  void clear_half(Kind kind, unsigned size_class, Batch& out) noexcept {
    OfClass& one = of_class(kind, size_class);
    one.taken = false;
    out.count = std::min(one.count, batch(size_class));
    std::copy_n(one.kept.begin(), out.count, out.items.begin());
    std::copy(one.kept.begin() + static_cast<std::ptrdiff_t>(out.count),
              one.kept.begin() + static_cast<std::ptrdiff_t>(one.count), one.kept.begin());
    one.count -= out.count;
    for (std::size_t i = 0; i < out.count; ++i) bytes_ -= out.items[i].committed;
  }
  // Precondition: not full.
  void put(Kind kind, unsigned size_class, const CachedBlock& kept) noexcept {
    OfClass& one = of_class(kind, size_class);
    one.kept[one.count++] = kept;
    bytes_ += kept.committed;
  }
  // The newest, if its pages suffice.
  bool take(Kind kind, unsigned size_class, std::uint64_t need, CachedBlock& out) noexcept {
    if (size_class > kLargestKept) return false;
    OfClass& one = of_class(kind, size_class);
    if (one.count == 0 || one.kept[one.count - 1].committed < need) return false;
    out = one.kept[--one.count];
    one.taken = true;
    bytes_ -= out.committed;
    return true;
  }
  // All of one class; call until it returns false.
  bool clear_some(Batch& out) noexcept {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      for (unsigned size_class = kSmallestClass; size_class <= kLargestKept; ++size_class) {
        clear_half(static_cast<Kind>(kind), size_class, out);
        if (out.count != 0) return true;
      }
    }
    return false;
  }
  // Without giving anything back: the blocks are another process's. Writes only where something is, since a
  // forked child has to copy each page that it writes to.
  void forget() noexcept {
    for (auto& of_kind : magazine_) {
      for (OfClass& one : of_kind) {
        if (one.given_up != 0) one.given_up = 0;
        if (one.count != 0) one.count = 0;
      }
    }
    if (bytes_ != 0) bytes_ = 0;
  }
  // Committed bytes of all that is kept.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kHotAfter = 16;
  struct OfClass {
    std::size_t given_up = 0;
    std::size_t count = 0;
    bool taken = false;  // since half of it was passed on last
    std::array<CachedBlock, 2 * Batch::kMost> kept;
  };
  OfClass& of_class(Kind kind, unsigned size_class) noexcept {
    return magazine_[static_cast<std::size_t>(kind)][size_class - kSmallestClass];
  }
  std::array<std::array<OfClass, kKeptClasses>, kKinds> magazine_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace forklift::arena
