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
// All functions need the interpreter lock, but for the destructor and where they say so.
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

  // Gives back small memory, if it can be. True: it is large, and give_back_more() is to be called until it
  // answers false. `sole`: the storage had one tensor when it moved, which had one owner.
  bool give_back(bool sole);
  // Overlays some more of it with the block, which has the storage's contents from `begin` on. What is to be
  // freed instead moves to `freed`. Needs no interpreter lock; the caller keeps the storage alive.
  bool give_back_more(const arena::Lease& block, std::size_t begin, bool sole, OldMemory& freed);

 private:
  // The whole pages of the range.
  struct Pages {
    std::size_t begin;  // from data_ on
    std::size_t bytes;
  };
  Pages pages() const noexcept;
  // Do the two lie alike in their pages?
  bool can_overlay(const arena::Lease& block, std::size_t begin) const noexcept;
  // False: the kernel's mappings are used up.
  bool overlay_more(const arena::Lease& block, std::size_t begin);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Deleter deleter_ = nullptr;
  void* context_ = nullptr;
  bool unseen_ = false;  // torch's own memory, which NumPy has not seen
  os::Overlay overlay_;
};

}  // namespace forklift::py::torch
