// Gives the pages of free blocks back to the kernel: punches holes into the data segment.
//
// Thread and process safety: all functions may be called from any thread of any process, without the rows'
// lock, which is not held while the pages go.
#pragma once

#include <cstdint>
#include <functional>

#include "arena/free_blocks.h"
#include "arena/rows.h"

namespace forklift::arena {

class Trimmer {
 public:
  // Told of each block whose pages are gone.
  using OnPunched = std::function<void(std::uint32_t block)>;
  Trimmer(const Rows& rows, FreeBlocks& free_blocks, OnPunched on_punched)
      : rows_(rows), free_blocks_(free_blocks), on_punched_(std::move(on_punched)) {}

  // Punches free blocks until at most `keep` bytes of them are committed. How many bytes went back.
  std::uint64_t trim_to(std::uint64_t keep);

 private:
  std::uint64_t punch_one();

  Rows rows_;
  FreeBlocks& free_blocks_;
  OnPunched on_punched_;
};

}  // namespace forklift::arena
