// Memory of the arena under torch's storages.
//
// A torch storage owns its memory through three words: address, context, deleter. A storage that is sent for
// the first time is copied into a block, and then these words are replaced: all tensors over the storage are
// in shared memory from then on, whoever holds them. What becomes of the old memory: old_memory.h.
//
// A storage that is received is made by torch from a DLPack structure, and then given the same words, so that
// every storage over arena memory is known by its deleter. Where the layout is unknown (layout.h), the
// DLPack structure's deleter does the work.
//
// A table has the live storages by their addresses, so that a block that arrives again, in another message or
// back at its sender, becomes the storage that is there already. torch relies on that: it compares storages
// to find out whether tensors overlap.
//
// All functions but release() need the interpreter lock.
#pragma once

#include <Python.h>

#include <cstddef>
#include <span>

#include "arena/arena.h"
#include "bindings/torch/layout.h"
#include "bindings/torch/old_memory.h"
#include "segment/segments.h"

namespace forklift::py::torch {

// What a storage's context is.
struct Held {
  arena::LeasePtr lease;
  std::byte* data = nullptr;  // where the storage begins, in the lease's memory
  void* impl = nullptr;       // the storage
  OldMemory old;
  PyObject* keep = nullptr;    // a reference of ours, or null
  bool has_allocator = false;  // torch can give the storage other memory

  std::size_t begin() const noexcept { return static_cast<std::size_t>(data - lease->data()); }
};

// The deleter of our storages; called from any thread, with or without the interpreter lock.
void release(void* held);

// The lease under a storage; null for memory that is not ours. `data` is where the storage's memory begins.
Held* find_held(void* impl, const std::byte* data);

// A named segment (strategy file_system) as torch's own functions find one: its file begins with 64 bytes of
// which the first four count references. So many stand for Forklift's that torch, which removes the name of a
// file without references, never does. Without the interpreter lock.
Result<arena::LeasePtr> make_named(std::size_t bytes);
// The same for memory that write_named() fills before anybody touches it.
Result<segment::Segments::Hollow> make_hollow(std::size_t bytes);
Status write_named(const arena::Lease& lease, const os::Fd& file, std::span<const std::byte> data);
inline constexpr std::size_t kNamedHead = 64;

// Where a storage's copy goes.
struct Placement {
  bool named = false;     // into a named segment, and not a block
  std::size_t begin = 0;  // from where on in its memory
};
// As the sharing strategy asks for. Before torch is known: a block, from its beginning.
Placement placement_of(StorageView storage) noexcept;

// Puts the storage over the lease's memory, which has its contents from `begin` on. Only when the layout is
// known.
void adopt(StorageView storage, arena::LeasePtr lease, std::size_t begin);

// After adopt(), when nobody waits for the move any more: gives the old memory of the storage at `impl` back,
// if it is still over the memory at `data`. `owner`: the tensor or storage that was sent, or null.
// `references`: what the storage has if nobody but the owner uses it; an object of Python's for the storage
// has one.
void give_back_old(void* impl, const std::byte* data, PyObject* owner, std::uint32_t references = 1);

// A new tensor over all or the first part of the lease's memory from `begin` on, elements in the given places.
// New reference, or nullptr with an exception set. The caller has checked that all elements are within the
// lease, and that no storage over this memory is there. `keep`, if any, lives as long as the storage.
PyObject* tensor_over(arena::LeasePtr lease, std::size_t begin, Element element, std::int32_t ndim,
                      const std::int64_t* shape, const std::int64_t* strides, PyObject* keep = nullptr);

// The same as a tensor of bytes.
PyObject* bytes_over(arena::LeasePtr lease, std::size_t begin, std::uint64_t bytes, PyObject* keep = nullptr);

// The storage (torch.UntypedStorage) over this memory, if it is alive and has these bytes. New reference;
// nullptr without an exception if there is none.
PyObject* living_storage(const arena::Lease& lease, std::size_t begin, std::uint64_t bytes);

// The living storage or a new one. New reference, or nullptr with an exception set.
PyObject* storage_over(arena::LeasePtr lease, std::size_t begin, std::uint64_t bytes);

}  // namespace forklift::py::torch
