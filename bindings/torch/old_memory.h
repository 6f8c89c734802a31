// The private memory that a storage of torch's had before it moved into the arena.
//
// A storage moves under tensors that are in use. What holds the old address itself is not told: arrays made by
// `tensor.numpy()`, DLPack structures, and operations that other threads are in the middle of, since torch
// works without the interpreter lock. So the old addresses stay valid wherever somebody may use them, but
// physical memory must not be taken twice:
//
// - Memory that NumPy has seen (torch marks such storages), and memory that is not torch's own allocator's,
//   stays as it is until the storage dies. Its contents are those of the time of the move.
// - Of a large range, the whole pages show the block's pages from then on (os::Overlay): the old addresses and
//   the new ones are the same memory. For that the copy lies in its block at the same distance from a page's
//   beginning (displacement_of). The ends, less than a page each, keep their contents of the time of the move.
// - Small memory that only one tensor can know is freed, a while later: operations of other threads are short.
//   So is a large range that cannot be overlaid: a named segment's copy always lies 64 bytes behind a page's
//   beginning, and malloc's own arenas place a range anywhere.
// - Other memory stays.
//
// All functions need the interpreter lock, but for the destructor.
#pragma once

#include <cstddef>

#include "arena/arena.h"
#include "bindings/torch/layout.h"

namespace forklift::py::torch {

// How far from the beginning of a block the copy of the storage begins.
std::size_t displacement_of(StorageView storage) noexcept;

class OldMemory {
 public:
  OldMemory() noexcept = default;
  // Takes the memory of the storage over.
  explicit OldMemory(StorageView storage) noexcept;
  ~OldMemory();
  OldMemory(OldMemory&& other) noexcept;
  OldMemory& operator=(OldMemory&& other) noexcept;

  // Gives back what physical memory can be given back. `block` has the storage's contents from `begin` on.
  // `sole`: the storage has one tensor, which has one owner.
  void give_back(const arena::Lease& block, std::size_t begin, bool sole);

 private:
  // False where the two do not lie alike, or the kernel's mappings are used up.
  bool overlay_with(const arena::Lease& block, std::size_t begin);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  bool unseen_ = false;  // torch's own memory, which NumPy has not seen
  os::Overlay overlay_;
};

}  // namespace forklift::py::torch
