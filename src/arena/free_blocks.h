// The blocks that nobody uses: a list for each kind and size class, of warm blocks (some of their pages
// exist) and of cold ones. Larger blocks are split into what is asked for, and free buddies are merged when
// address space runs out.
//
//   std::uint32_t index = free_blocks.find(kind, size_class);
//   if (index == rows.block_capacity()) return no_space;
//   free_blocks.unlink(change, index, meta);
//
// Thread and process safety: all functions need the rows' lock.
#pragma once

#include <cstdint>
#include <optional>

#include "arena/rows.h"

namespace forklift::inline abi_0_1::arena {

class FreeBlocks {
 public:
  explicit FreeBlocks(const Rows& rows) : rows_(rows) {}

  // A free block of this class, made from others if need be; it stays in its list. The table's capacity when
  // there is none.
  std::uint32_t find(Kind kind, unsigned size_class);

  // Parts of a transaction. `meta`: the block's, as it is (unlink) or will be (link).
  void unlink(sync::Transaction& change, std::uint32_t index, BlockMeta meta);
  void link(sync::Transaction& change, std::uint32_t index, BlockMeta meta);

  // Takes a block out of its list and makes this process its holder, so that its death frees the block. The
  // lease's row; nothing when the lease table is full.
  std::optional<std::uint32_t> hold(std::uint32_t index);
  // Gives up a lease of a block. With the last one the block is free, and handles to it are stale.
  void drop_lease(std::uint32_t row, std::uint32_t index);

  // The block whose pages are most likely not to be missed; the table's capacity when all are cold.
  std::uint32_t coldest_warm() const;

 private:
  std::uint32_t first(Kind kind, unsigned size_class) const;
  bool split_to(Kind kind, unsigned size_class);
  bool split_from(const Word* heads, unsigned size_class);
  bool merge_up_to(Kind kind, unsigned size_class);
  void split_once(std::uint32_t index);
  std::uint32_t take_block_row(sync::Transaction& change);
  void link_halves(sync::Transaction& change, std::uint32_t lower, std::uint32_t upper, BlockMeta meta);
  void merge_level(Kind kind, unsigned level);
  void merge_pair(std::uint32_t lower, std::uint32_t upper);

  Rows rows_;
};

}  // namespace forklift::inline abi_0_1::arena
