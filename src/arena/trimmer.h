// Gives the pages of free blocks back to the kernel: punches holes into the data segment.
//
// Thread and process safety: all functions may be called from any thread of any process, without the rows'
// lock, which is not held while the pages go.
#pragma once

#include <cstdint>
#include <functional>

#include "arena/free_blocks.h"
#include "arena/rows.h"

namespace forklift::inline abi_0_1::arena {

class Trimmer {
 public:
  // Told of each block whose pages are gone.
  using OnPunched = std::function<void(std::uint32_t block)>;
  // Asked before that, while this process alone holds the block. False: the pages must stay.
  using MayPunch = std::function<bool(std::uint64_t offset, std::uint64_t bytes)>;
  Trimmer(const Rows& rows, FreeBlocks& free_blocks, MayPunch may_punch, OnPunched on_punched)
      : rows_(rows),
        free_blocks_(free_blocks),
        may_punch_(std::move(may_punch)),
        on_punched_(std::move(on_punched)) {}

  // Punches free blocks until at most `keep` bytes of them are committed. How many bytes went back.
  std::uint64_t trim_to(std::uint64_t keep);

 private:
  std::uint64_t punch_one();

  Rows rows_;
  FreeBlocks& free_blocks_;
  MayPunch may_punch_;
  OnPunched on_punched_;
};

}  // namespace forklift::inline abi_0_1::arena
