// Memory of the arena under torch's storages.
//
// A torch storage owns its memory through three words: address, context, deleter. A storage that is sent for
// the first time is copied into a block, and then these words are replaced: all tensors over the storage are
// in shared memory from then on, whoever holds them. The old memory stays until the storage dies, since
// arrays made by `tensor.numpy()` and threads in the middle of an operation may still look at it.
//
// A storage that is received is made by torch from a DLPack structure, and then given the same words, so that
// every storage over arena memory is known by its deleter. Where the layout is unknown (layout.h), the
// DLPack structure's deleter does the work, and a table says which addresses are ours.
//
// All functions but release() need the interpreter lock.
#pragma once

#include <Python.h>

#include "arena/arena.h"
#include "bindings/torch/layout.h"

namespace forklift::py::torch {

// What a storage's context is.
struct Held {
  arena::LeasePtr lease;
  std::byte* data = nullptr;
  Deleter old_deleter = nullptr;  // of the memory that the storage had before
  void* old_context = nullptr;
};

// The deleter of our storages; called from any thread, with or without the interpreter lock.
void release(void* held);

// The lease under a storage; null for memory that is not ours. `data` is where the storage's memory begins.
Held* find_held(void* impl, const std::byte* data);

// Puts the storage over the lease's memory, which has at least its size and its contents. Only when the
// layout is known.
void adopt(StorageView storage, arena::LeasePtr lease);

// DLPack's word for an element type.
struct Element {
  std::uint8_t code;
  std::uint8_t bits;
  std::size_t size() const noexcept { return bits / 8U; }
  bool operator==(const Element&) const = default;
};
inline constexpr Element kBytes{1, 8};

// A new tensor over all or the first part of the lease's memory, elements in the given places. New reference,
// or nullptr with an exception set. The caller has checked that all elements are within the lease.
PyObject* tensor_over(arena::LeasePtr lease, Element element, std::int32_t ndim, const std::int64_t* shape,
                      const std::int64_t* strides);

}  // namespace forklift::py::torch
