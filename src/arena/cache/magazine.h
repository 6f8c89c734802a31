// Blocks that this process keeps for its next allocations instead of giving them back to the ledger.
//
//   if (!magazine.wanted(kind, size_class)) return false;          // this class is not in steady use
//   if (magazine.full(kind, size_class)) magazine.clear_half(kind, size_class, surplus);
//   magazine.put(kind, size_class, kept);
//   ...
//   CachedBlock kept;
//   if (magazine.take(kind, size_class, need, kept)) ...
//
// In the ledger a kept block stays this process's, with its count and its lease row. So the reaper gives it
// back when the process dies, and keeping it costs no transaction: only the block's meta word changes, which
// belongs to its only holder. The last block in is the first out, since its bytes are in the processor's
// cache. A class takes part once the process has given up some blocks of it; a process that makes three
// tensors keeps none.
//
// A full magazine passes half of its blocks on to the depot (arena/cache/depots.h), where other processes
// find them, so that the sender and the receiver of a flow of blocks use the depot once in a batch. A class
// has room for two batches while blocks are also taken from it, so that taking and giving by turns does not
// touch the depot. Where blocks are only given it has room for one, so that fewer are on their way.
//
// Process-private, and empty in a forked child. Not thread-safe: guarded by the arena's process-private lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "arena/tables.h"

namespace forklift::inline abi_0_1::arena {

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
  // How many blocks of a class change hands together: 4 MiB of them at most, so that the blocks in circulation
  // fit into the processors' caches. Beyond 512 KiB, one at a time: the depot's lock is cheap beside filling such
  // a block, and the fewer go round, the more of their lines and pages are in the caches and in the translation
  // buffer (2,048 of 4 KiB).
  static constexpr std::size_t batch(unsigned size_class) noexcept {
    return size_class >= 20 ? 1 : Batch::kMost;
  }

  // Counts a block that is given up. Whether its class keeps blocks by now.
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
  // Moves the colder half of a class to `out`.
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
  // The newest block, if enough of its pages exist.
  bool take(Kind kind, unsigned size_class, std::uint64_t need, CachedBlock& out) noexcept {
    if (size_class > kLargestKept) return false;
    OfClass& one = of_class(kind, size_class);
    if (one.count == 0 || one.kept[one.count - 1].committed < need) return false;
    out = one.kept[--one.count];
    one.taken = true;
    bytes_ -= out.committed;
    return true;
  }
  // Moves some blocks of one class to `out`; call until it returns false.
  bool clear_some(Batch& out) noexcept {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      for (unsigned size_class = kSmallestClass; size_class <= kLargestKept; ++size_class) {
        clear_half(static_cast<Kind>(kind), size_class, out);
        if (out.count != 0) return true;
      }
    }
    return false;
  }
  // Forgets the blocks without giving them back: they are another process's. Writes only where there is
  // something, since a forked child has to copy each page that it writes to.
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
    bool taken = false;  // a block, since half of them was passed on last
    std::array<CachedBlock, 2 * Batch::kMost> kept;
  };
  OfClass& of_class(Kind kind, unsigned size_class) noexcept {
    return magazine_[static_cast<std::size_t>(kind)][size_class - kSmallestClass];
  }
  std::array<std::array<OfClass, kKeptClasses>, kKinds> magazine_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace forklift::inline abi_0_1::arena
